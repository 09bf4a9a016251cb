// title: A chain of microtasks without end ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

const next = () => queueMicrotask(next);
next();
await new Promise(() => {});
