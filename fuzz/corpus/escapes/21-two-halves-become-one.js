// title: Two separate halves from the host arrive as one character
// family: 21
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [2, 128512]}
// within: 2

const pair = await host.odd("two halves");
return [pair.length, pair.codePointAt(0)];
