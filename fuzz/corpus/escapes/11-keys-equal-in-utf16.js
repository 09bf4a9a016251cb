// title: Keys that differ in spelling only are one key
// family: 11
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"a": 2, "😀": 4}}
// within: 2

return await host.echo({ a: 1, ["\u0061"]: 2, "\u{1F600}": 3, ["\uD83D" + "\uDE00"]: 4 });
