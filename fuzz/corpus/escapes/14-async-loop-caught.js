// title: An async function that loops behind a catch ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit", "entries": 0}
// within: 2
// limits: {"cpu": 0.1}

for (;;) await (async () => { for (;;); })().catch(() => console.log("caught"));
