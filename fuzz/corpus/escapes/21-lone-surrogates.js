// title: Halves of surrogate pairs cross both ways unchanged, in texts and in keys
// family: 21
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["\ud83d", {"\ude00": "\ud800x"}, 1]}
// within: 2

const half = await host.odd("half a pair");
return [half, await host.echo({ "\ude00": "\ud800x" }), half.length];
