// title: A loop in toJSON ends by the CPU limit when the program asks for it
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

return JSON.stringify({ toJSON() { for (;;); } });
