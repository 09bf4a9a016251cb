// title: String.raw with a template of a huge length ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1, "memory": 134217728}

return String.raw({ raw: { length: 2 ** 53 - 1, get 0() { return ""; } } }).length;
