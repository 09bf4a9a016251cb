// title: A hundred thousand calls at once end by the call limit, which nobody catches
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "call-limit", "called": 100, "entries": 0}
// within: 4
// limits: {"max_calls": 100, "cpu": 5}

try { await Promise.all(Array.from({ length: 100000 }, () => host.echo(1))); } catch { console.log("caught"); } finally { console.log("finally"); }
