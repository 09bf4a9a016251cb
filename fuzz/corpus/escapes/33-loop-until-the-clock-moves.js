// title: A loop that waits for a clock that stands still ends by its fuel
// family: 33
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "incomplete", "reason": "compute"}
// within: 2
// limits: {"compute": 0.1}

async function run() {
  const began = Date.now();
  while (Date.now() < began + 1000);
  return "late";
}
