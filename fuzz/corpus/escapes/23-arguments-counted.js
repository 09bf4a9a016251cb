// title: None or two arguments fail that call with a fixed text
// family: 23
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["args: undefined is not JSON", "args: one argument expected, got 2", 1], "called": 1}
// within: 2

const found = [];
for (const call of [() => host.echo(), () => host.echo(1, 2), () => host.echo(1)]) {
  try { found.push(await call()); } catch (error) { found.push(error.message); }
}
return found;
