// title: Globals, prototypes and jobs that one run leaves never reach the next
// family: 32
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "function"]}
// within: 2
// runs: 3

const seen = [typeof globalThis.left, typeof {}.left, typeof Array.prototype.map];
globalThis.left = Object.prototype.left = 1;
delete Array.prototype.map;
Object.freeze(Object.prototype);
queueMicrotask(() => { globalThis.late = 1; });
return seen;
