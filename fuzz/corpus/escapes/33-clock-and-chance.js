// title: Clock, chance, time zone and texts are the same when a run is replayed
// family: 33
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": {"zone": 0, "same": true}}
// within: 2
// replay: true

async function run() {
  const before = Date.now();
  const seen = [Math.random(), before, new Date().toString(), (1234.5).toLocaleString(), new Date(0).toLocaleDateString()];
  await tool("echo", { seen });
  await remember(`${performance.now()} ${Math.random()} ${Date()}`);
  return { zone: new Date().getTimezoneOffset(), same: Date.now() >= before };
}
