// title: Registered symbols, patched constructors and a poisoned JSON of one run never reach the next
// family: 32
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["function", "{\"a\":1}", true]}
// within: 2
// runs: 2

const key = Symbol.for("left");
const seen = [typeof Object.keys, JSON.stringify({ a: 1 }), globalThis[key] === undefined];
globalThis[key] = 1;
Object.keys = JSON.stringify = null;
return seen;
