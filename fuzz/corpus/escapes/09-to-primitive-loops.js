// title: A toPrimitive that loops ends by the CPU limit
// family: 9
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

return `${{ [Symbol.toPrimitive]() { for (;;); } }}`;
