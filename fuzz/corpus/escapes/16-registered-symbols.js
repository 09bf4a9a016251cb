// title: Registered symbols without end come to the memory limit
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 5
// limits: {"memory": 33554432, "cpu": 6}

const held = [];
for (let at = 0; ; at += 1) held.push(Symbol.for("a long enough name for a symbol " + at));
