// title: Notes that are no text are refused, whatever they turn into
// family: 34
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["DoorError", "DoorError", "DoorError"], "notes": []}
// within: 2

async function run() {
  const found = [];
  for (const note of [{ toString: () => "note" }, ["note"], "   "]) {
    try { await remember(note); found.push("kept"); } catch (error) { found.push(error.name); }
  }
  return found;
}
