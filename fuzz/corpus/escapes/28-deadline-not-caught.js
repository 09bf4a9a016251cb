// title: No handler sees the deadline
// family: 28
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "timeout", "entries": 0}
// within: 2
// limits: {"timeout": 0.2}

try { await host.never(1); } catch { console.log("caught"); } finally { console.log("finally"); }
