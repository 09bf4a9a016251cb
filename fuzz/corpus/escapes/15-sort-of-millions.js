// title: Sorting a million numbers with a comparator that lies ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.2}

const many = Array.from({ length: 1000000 }, (_, at) => (at * 7919) % 1000003);
for (;;) many.sort(() => Math.random() - 0.5);
