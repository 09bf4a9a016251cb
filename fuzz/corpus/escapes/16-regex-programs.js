// title: Regular expressions that are huge once compiled end by a limit
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (let at = 0; ; at += 1) {
  try { const made = new RegExp(`(?:a{1,500}b${at}){1,200}`); made.test("ab"); held.push(made, new Array(20000).fill(at)); } catch {}
}
