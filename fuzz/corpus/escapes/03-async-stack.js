// title: A stack asked for inside a promise job shows no frame of ours
// family: 3
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": false}
// within: 2

const stack = await Promise.resolve().then(() => host.echo(1)).then(() => new Error("x").stack);
return /prelude|ptc|\.py/.test(String(stack));
