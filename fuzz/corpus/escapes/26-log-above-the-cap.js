// title: A line and a message that do not fit a frame are cut to fit
// family: 26
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "entries": 1}
// within: 2
// limits: {"max_message_bytes": 1000}

console.log("\u0001".repeat(5000));
throw new Error("\u0001".repeat(5000));
