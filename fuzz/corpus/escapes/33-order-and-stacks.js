// title: Orders of keys, of answers and of text in stacks are the same when a run is replayed
// family: 33
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["2", "10", "b", "a"], "called": 4}
// within: 2
// replay: true

async function run() {
  const object = { b: 1, 10: 2, a: 3, 2: 4 };
  const order = [];
  await Promise.all(["slow", "echo", "slow"].map((name, at) => tool(name, { at }).then(() => order.push(at))));
  await tool("echo", { order, stack: String(new Error("x").stack), sorted: [3, 1, 2].sort(() => 0) });
  return Object.keys(object);
}
