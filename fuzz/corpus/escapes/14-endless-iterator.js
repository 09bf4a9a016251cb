// title: Destructuring and spreading an endless iterator ends by a limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.2, "memory": 67108864}

const endless = { [Symbol.iterator]: () => ({ next: () => ({ value: 1, done: false }) }) };
for (const one of endless) continue;
