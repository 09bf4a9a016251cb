// title: Keys that pollute cross a door and the output as plain keys
// family: 10
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": {"__proto__": {"admin": true}, "constructor": {"prototype": {}}, "seen": "undefined"}}
// within: 2

async function run() {
  const data = await tool("parse", { text: '{"__proto__": {"admin": true}, "constructor": {"prototype": {}}}' });
  Object.assign({}, data);
  data.seen = typeof {}.admin;
  return data;
}
