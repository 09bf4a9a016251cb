// title: One line of ten million characters is cut, and the run goes on
// family: 18
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 1, "entries": 1}
// within: 2
// limits: {"max_log_chars": 100}

console.log("x".repeat(1e7));
return 1;
