// title: Sorting a typed array with a comparator that never agrees ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.2}

const many = new Float64Array(500000).map((_, at) => (at * 7919) % 500009);
for (;;) many.sort((a, b) => (a + b) % 3 - 1);
