// title: join of an object that claims a length of 2^32-1 ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

return [].join.call({ length: 2 ** 32 - 1 }).length;
