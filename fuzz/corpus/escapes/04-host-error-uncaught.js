// title: An uncaught host error is told with its text and the place of the call only
// family: 4
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["only this"]}
// within: 2

await host.leaky("only this");
