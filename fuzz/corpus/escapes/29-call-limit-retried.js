// title: The limit of calls cannot be caught and tried again
// family: 29
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "call-limit", "called": 5, "entries": 0}
// within: 2
// limits: {"max_calls": 5}

for (;;) { try { await host.echo(1); } catch { console.log("caught"); } }
