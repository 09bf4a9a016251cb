// title: The largest strings are errors of the program or end by the memory limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (let size = 2 ** 20; ; size += 1) {
  try { held.push("x".repeat(size).padEnd(size + 9, "ab").toUpperCase()); } catch {}
}
