// title: Data in the form of the wire's markers is data
// family: 24
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [{"kind": "bigint", "digits": "5"}, {"kind": "array", "length": 3}, {"kind": "object", "keys": ["a"]}]}
// within: 2

return await host.echo([{ kind: "bigint", digits: "5" }, { kind: "array", length: 3 }, { kind: "object", keys: ["a"] }]);
