// title: Parsing dates and numbers out of long texts ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.2}

const long = "1".repeat(100000);
for (;;) { Date.parse(long); Number(long); parseFloat(long); parseInt(long, 36); }
