// title: Lone surrogates in a line and in a message are no trouble
// family: 21
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "entries": 1}
// within: 2

console.log("\ud800", { "\udfff": "\udbff" });
throw new Error("\udc00 bad");
