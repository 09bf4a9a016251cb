// title: A getter that calls a host function while it is read is no trouble
// family: 8
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [{"a": 2}, 1], "calls": [["echo", 1], ["echo", {"a": 2}]]}
// within: 2

let inner;
const outer = await host.echo({ get a() { inner = host.echo(1); return 2; } });
return [outer, await inner];
