// title: Keys that are equal only after normalisation stay two keys
// family: 11
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 2, "calls": [["echo", {"\u00e9": 1, "e\u0301": 2}]]}
// within: 2

return Object.keys(await host.echo({ "\u00e9": 1, "e\u0301": 2 })).length;
