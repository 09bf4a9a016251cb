// title: A value that does not fit a frame is an output limit
// family: 26
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "output-limit"}
// within: 2
// limits: {"max_message_bytes": 1000}

return "x".repeat(2000);
