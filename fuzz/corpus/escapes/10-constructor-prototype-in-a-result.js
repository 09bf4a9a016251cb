// title: constructor.prototype keys in a host result are plain keys
// family: 10
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [{"constructor": {"prototype": {"polluted": 1}}}, "undefined"]}
// within: 2

const data = await host.parse('{"constructor": {"prototype": {"polluted": 1}}}');
return [data, typeof {}.polluted];
