// title: The wall during a door cannot be caught
// family: 29
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "incomplete", "reason": "wall", "called": 1, "entries": 0}
// within: 2
// limits: {"wall": 0.2}

async function run() { try { await tool("never", {}); } catch { console.log("caught"); } finally { console.log("finally"); } }
