// title: The constructor of a door makes nothing of the host
// family: 1
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined"], "calls": []}
// within: 2

async function run() {
  return [ai, tool, ask, remember, recall, log].map((door) => door.constructor("return typeof $jsrun + typeof jsrun_doors")().slice(9));
}
