// title: Runs of one image at the same time share no globals, prototypes or lastIndex
// family: 31
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 1, "undefined"]}
// within: 2
// together: 3

globalThis.count = (globalThis.count ?? 0) + 1;
Array.prototype.count = (Array.prototype.count ?? 0) + 1;
const other = typeof globalThis.other;
await host.slow(1);
globalThis.other = 1;
return [globalThis.count, [].count, other];
