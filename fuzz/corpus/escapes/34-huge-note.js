// title: A note of ten megabytes is refused and nothing is kept of it
// family: 34
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": "DoorError", "notes": []}
// within: 2
// limits: {"memory": 268435456}

async function run() {
  try { await remember("x".repeat(10485760)); return "kept"; } catch (error) { return error.name; }
}
