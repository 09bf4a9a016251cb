// title: An input larger than a door takes fails that call only
// family: 35
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["DoorError", 1]}
// within: 2
// prompts: {"label": "Label it."}

async function run() {
  try { await ai("label", "x".repeat(2097152)); return ["sent", 0]; } catch (error) { return [error.name, (await ai("label", 1)).input]; }
}
