// title: What a run that overflowed and failed leaves never reaches the next
// family: 32
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["undefined"]}
// within: 2
// runs: 3

const before = typeof globalThis.left;
globalThis.left = 1;
const fall = () => { fall(); };
try { fall(); } catch {}
throw new Error(before);
