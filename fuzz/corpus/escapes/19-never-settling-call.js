// title: A call that is never answered ends by the deadline
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "timeout", "called": 1}
// within: 2
// limits: {"timeout": 0.2}

await host.never(1);
