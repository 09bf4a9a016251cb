// title: Closures that hold each other come to the memory limit
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

let last = null;
for (;;) { const before = last; const self = { before, call: () => self.before }; last = self; }
