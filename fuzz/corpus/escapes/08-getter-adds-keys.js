// title: Keys that a getter adds while an object is read do not cross
// family: 8
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"a": 1}}
// within: 2

const object = { get a() { object.b = 2; return 1; } };
return await host.echo(object);
