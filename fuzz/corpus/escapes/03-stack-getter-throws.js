// title: A thrown error whose every getter throws is one exception
// family: 3
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception"}
// within: 2

const error = new Error("x");
for (const name of ["stack", "message", "name", "cause", "constructor", "toString"]) {
  Object.defineProperty(error, name, { get() { throw error; } });
}
throw error;
