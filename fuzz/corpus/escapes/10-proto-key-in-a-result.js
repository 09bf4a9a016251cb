// title: A __proto__ key in a host result is a plain key and pollutes nothing
// family: 10
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", ["__proto__", "a"], {"__proto__": {"polluted": 1}, "a": 2}]}
// within: 2

const data = await host.parse('{"__proto__": {"polluted": 1}, "a": 2}');
const found = [typeof data.polluted, typeof {}.polluted, Object.keys(data)];
return [...found, data];
