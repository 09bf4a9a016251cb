// title: A regular expression that backtracks for ever ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

return /^(a+)+$/.test("a".repeat(40) + "!");
