// title: Steps that are used up cannot be caught and tried again
// family: 29
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "incomplete", "reason": "steps", "called": 5, "entries": 0}
// within: 2
// limits: {"steps": 5}

async function run() { for (;;) { try { await tool("echo", {}); } catch { console.log("caught"); } } }
