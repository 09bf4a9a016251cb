// title: A promise of any kind as argument fails that call only
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["args: Promise is not JSON; await it first", "args.a: Promise is not JSON; await it first", 1], "called": 1}
// within: 2

class Own extends Promise {}
const text = (promise) => promise.then(() => "sent", (error) => error.message);
return [await text(host.echo(Promise.resolve(1))), await text(host.echo({ a: Own.resolve(1) })), await host.echo(1)];
