// title: A getter that throws what cannot be printed fails that call only
// family: 8
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1], "calls": [["echo", 1]]}
// within: 2

const nasty = { get [Symbol.toPrimitive]() { throw nasty; }, get message() { throw nasty; }, get toString() { throw nasty; } };
try { await host.echo({ get a() { throw nasty; } }); } catch {}
return [await host.echo(1)];
