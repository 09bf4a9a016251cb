// title: Atomics is not to be had through any constructor
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined"]}
// within: 2

return [Function("return typeof Atomics")(), Function("return typeof SharedArrayBuffer")()];
