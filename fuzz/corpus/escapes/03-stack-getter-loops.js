// title: A thrown error whose stack getters loop is told without asking them
// family: 3
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["Error: x"]}
// within: 2
// limits: {"cpu": 0.1}

class Trap extends Error { get stack() { for (;;); } }
throw Object.defineProperty(new Trap("x"), "stack", { get() { for (;;); } });
