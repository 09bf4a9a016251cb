// title: The output limit cannot be caught
// family: 29
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "output-limit"}
// within: 2
// limits: {"max_output_bytes": 100}

try { for (;;) console.log("x".repeat(10)); } catch {} finally { return "finished"; }
