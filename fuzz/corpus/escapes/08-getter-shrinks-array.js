// title: A getter that empties its array while it is read is a refusal
// family: 8
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "refused", "calls": []}
// within: 2

const list = [0, 1, 2, 3];
Object.defineProperty(list, 0, { get() { list.length = 1; return 0; }, enumerable: true, configurable: true });
try { return await host.echo(list); } catch { return "refused"; }
