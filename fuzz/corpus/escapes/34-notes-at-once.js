// title: Notes remembered at the same time are all kept, each once
// family: 34
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": 20}
// within: 2

async function run() {
  await Promise.all(Array.from({ length: 20 }, (_, at) => remember("note " + at)));
  return new Set((await recall()).map((note) => note.text)).size;
}
