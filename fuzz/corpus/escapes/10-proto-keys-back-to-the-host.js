// title: A __proto__ key made by the program arrives as a plain key
// family: 10
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"__proto__": 1, "constructor": 2, "hasOwnProperty": 3, "toString": 4}, "calls": [["echo", {"__proto__": 1, "constructor": 2, "hasOwnProperty": 3, "toString": 4}]]}
// within: 2

return await host.echo({ ["__proto__"]: 1, constructor: 2, hasOwnProperty: 3, toString: 4 });
