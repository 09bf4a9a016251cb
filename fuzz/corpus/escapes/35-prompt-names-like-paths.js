// title: Names of prompts that leave their folder, or are made at run time, reach no prompt that is not there
// family: 35
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["DoorError", "DoorError", "DoorError", "DoorError", "DoorError", "Label it."], "called": 1}
// within: 2
// prompts: {"label": "Label it."}

async function run() {
  const found = [];
  for (const name of ["../label", "../../etc/passwd", "la\0bel", "LABEL", "__proto__", "prompts/label.md"]) {
    try { found.push((await ai(name, 1)).prompt); } catch (error) { found.push(error.name); }
  }
  return found;
}
