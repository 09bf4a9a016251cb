// title: An endless loop of a bundle ends by its fuel
// family: 14
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "incomplete", "reason": "compute"}
// within: 2
// limits: {"compute": 0.1}

async function run() { for (;;) { try { for (;;); } catch {} } }
