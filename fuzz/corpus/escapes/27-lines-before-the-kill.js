// title: What was written right before a loop is kept
// family: 27
// engines: ["quickjs", "quickjs-spawned"]
// form: "async"
// expect: {"kind": "compute-limit", "logs": ["last words"]}
// within: 2
// limits: {"cpu": 0.1}

console.log("last words");
for (;;);
