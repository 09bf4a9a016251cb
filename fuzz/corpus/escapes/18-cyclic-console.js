// title: The console prints cycles, proxies and getters without running anything
// family: 18
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 0, "logs": ["{a: [Circular], b: [Getter]}", "{}"]}
// within: 2

let ran = 0;
const cycle = { get b() { ran += 1; return 1; } };
const shown = { a: null };
shown.a = shown;
Object.defineProperty(shown, "b", Object.getOwnPropertyDescriptor(cycle, "b"));
console.log(shown);
console.log(new Proxy({}, { get() { ran += 1; } }));
return ran;
