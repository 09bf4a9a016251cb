// title: Array buffers without end come to the memory limit
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (;;) { try { held.push(new Uint8Array(2 ** 20).fill(1)); } catch {} }
