// title: A proxy whose every trap throws fails that call only
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["Error", 1]}
// within: 2

const handler = new Proxy({}, { get() { throw new RangeError("trap"); } });
const found = [];
try { await host.echo(new Proxy({}, handler)); } catch (error) { found.push(error.name); }
found.push(await host.echo(1));
return found;
