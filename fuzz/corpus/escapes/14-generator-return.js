// title: A generator that loops when it is closed ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

function* stubborn() { try { yield 1; } finally { for (;;); } }
for (const one of stubborn()) break;
