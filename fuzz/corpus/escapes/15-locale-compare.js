// title: localeCompare in a loop ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

const left = "a".repeat(100000), right = "a".repeat(99999) + "b";
for (;;) left.localeCompare(right);
