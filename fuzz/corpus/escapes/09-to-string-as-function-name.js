// title: A property key that converts itself to another name at each use is no way to an undeclared function
// family: 9
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "function", "undefined"]}
// within: 2

let turn = 0;
const names = ["__proto__", "echo", "constructor"];
const key = { toString: () => names[turn++ % 3] };
return [typeof host[key], typeof host[key], typeof host[key]];
