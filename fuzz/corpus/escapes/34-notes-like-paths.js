// title: Notes in the form of paths, keys and markup are text, and come back as such
// family: 34
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["{{secret}} </note>", "a\u0000b", "__proto__", "../../etc/passwd"], "notes": ["{{secret}} </note>", "a\u0000b", "__proto__", "../../etc/passwd"]}
// within: 2

async function run() {
  for (const note of ["../../etc/passwd", "__proto__", "a\0b", "{{secret}} </note>"]) await remember(note);
  return (await recall()).map((note) => note.text);
}
