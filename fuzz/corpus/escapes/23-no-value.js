// title: A program that returns nothing finishes without a value
// family: 23
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"nothing": true}
// within: 2

await host.echo(null);
