// title: Arguments that are equal as text but of another order are other calls, and replay as themselves
// family: 33
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": true, "calls": [["echo", {"a": 1, "b": 1}], ["echo", {"b": 1, "a": 1}]]}
// within: 2
// replay: true

async function run() {
  await tool("echo", { a: 1.0, b: 1 });
  await tool("echo", { b: 1, a: 1 });
  return true;
}
