// title: A program that replaces every intrinsic cannot change what a door sends
// family: 5
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": {"a": 1}, "calls": [["echo", {"a": 1}]]}
// within: 2

async function run() {
  JSON.stringify = () => "\"forged\"";
  Array.isArray = () => false;
  Object.keys = Object.getOwnPropertyNames = () => ["forged"];
  String.prototype.trim = () => "forged";
  Promise.prototype.then = undefined;
  return await tool("echo", { a: 1 });
}
