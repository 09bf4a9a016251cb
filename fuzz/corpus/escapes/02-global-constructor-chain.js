// title: The chain of constructors from the global object ends at the realm's Function
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, "undefined", "undefined"]}
// within: 2

const make = globalThis.constructor.constructor;
return [make === Function, make("return typeof process")(), make("return typeof this.host")()];
