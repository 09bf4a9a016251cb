// title: JSON replaced by the program changes nothing of what crosses
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"a": [1, "two"]}, "calls": [["echo", {"a": [1, "two"]}]]}
// within: 2

JSON.stringify = () => "\"forged\"";
JSON.parse = () => ({ forged: true });
globalThis.JSON = undefined;
return await host.echo({ a: [1, "two"] });
