// title: A value fifty thousand levels deep is no trouble for console, call and value
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, true], "logs": ["[[[[[Array]]]]]"]}
// within: 2
// limits: {"max_value_tokens": 60000}

let deep = [];
for (let at = 0; at < 50000; at += 1) deep = [deep];
console.log(deep);
const back = await host.echo(deep);
return [Array.isArray(back), back.length === 1];
