// title: A result twenty thousand levels deep arrives, and so it does when it is sent back
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 20001}
// within: 2

const depth = (value) => { let count = 0; for (; value !== undefined; value = value[0]) count += 1; return count; };
return depth(await host.echo(await host.odd("deep")));
