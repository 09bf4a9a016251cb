// title: An endless loop ends by the deadline when that comes first
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "timeout"}
// within: 2
// limits: {"timeout": 0.15}

for (;;);
