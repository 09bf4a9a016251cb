// title: Numbers that are no JSON are refused with their name
// family: 22
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["args: NaN is not JSON", "args: Infinity is not JSON", "args: -Infinity is not JSON", "args: -0 is not JSON", "args[1]: -0 is not JSON"], "calls": []}
// within: 2

const text = (value) => host.echo(value).then(() => "sent", (error) => error.message);
return await Promise.all([NaN, Infinity, -Infinity, -0, [0, -0]].map(text));
