// title: caller, callee and arguments lead to no frame of ours
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["TypeError", "TypeError", null]}
// within: 2

const look = (read) => { try { return read() ?? null; } catch (error) { return error.name; }};
const seen = [];
const spy = { get slot() { seen.push(look(() => spy.caller)); return 1; } };
await host.echo(spy);
function strict() { "use strict"; return [look(() => strict.caller), look(() => arguments.callee)]; }
return [...strict(), ...seen];
