// title: No way leads to shared memory
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "ArrayBuffer"]}
// within: 2

const buffer = new ArrayBuffer(8);
return [typeof SharedArrayBuffer, typeof Atomics, Object.prototype.toString.call(buffer).slice(8, -1)];
