// title: Array.from of the largest length ends by a limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1, "memory": 134217728}

return Array.from({ length: 2 ** 32 - 1 }, () => 0).length;
