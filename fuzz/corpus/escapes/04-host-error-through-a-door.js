// title: A tool's error crosses as its text and says which door it was
// family: 4
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["DoorError", "tool", "leaky", false]}
// within: 2

async function run() {
  try { await tool("leaky", { a: 1 }); } catch (error) {
    const all = Reflect.ownKeys(error).map((key) => String(error[key])).join(" ") + error.stack;
    return [error.name, error.door, error.ref, /\.py|PermissionError|etc\/|line \d+, in/.test(all)];
  }
}
