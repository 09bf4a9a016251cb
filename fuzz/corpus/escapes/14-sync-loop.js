// title: An endless loop of a sync program, around a call, ends by the call limit
// family: 14
// engines: ["quickjs", "quickjs-spawned"]
// form: "sync"
// expect: {"kind": "call-limit", "called": 50}
// within: 2
// limits: {"max_calls": 50}

for (;;) { try { host.echo(1); } catch {} }
