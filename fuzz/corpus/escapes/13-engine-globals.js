// title: Nothing that engines add for themselves is left
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": []}
// within: 2

const names = ["std", "os", "bjson", "print", "scriptArgs", "gc", "Worker", "SharedArrayBuffer", "Atomics", "WeakRef",
  "FinalizationRegistry", "WebAssembly", "Intl", "setTimeout", "setInterval", "setImmediate", "fetch", "process",
  "navigator", "InternalError", "DOMException", "escape", "unescape", "structuredClone", "Float16Array", "AsyncDisposableStack",
  "DisposableStack", "load", "read", "quit", "d8", "Realm", "ShadowRealm", "Temporal", "__loadScript", "argv0", "urlGet"];
return names.filter((name) => name in globalThis);
