// title: A toJSON that calls a host function is never asked by us, and works for the program
// family: 9
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["[{}]", 1], "calls": [["echo", 1]]}
// within: 2

let inner;
const text = JSON.stringify([{ toJSON() { inner = host.echo(1); return {}; } }]);
return [text, await inner];
