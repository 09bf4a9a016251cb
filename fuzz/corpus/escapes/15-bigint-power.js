// title: A BigInt power of ten million digits ends by a limit or is an error of the program
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

for (;;) { try { 7n ** (10n ** 6n); } catch {} }
