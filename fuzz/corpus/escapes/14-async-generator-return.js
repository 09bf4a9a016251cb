// title: An async generator that never lets itself be closed ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

async function* stubborn() { try { yield 1; } finally { for (;;) await null; } }
for await (const one of stubborn()) break;
