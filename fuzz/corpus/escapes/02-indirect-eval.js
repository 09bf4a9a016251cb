// title: Indirect eval sees the global object and nothing around it
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", "undefined"]}
// within: 2

return ["host", "process", "require", "__ptc_send"].map((name) => (0, eval)(`typeof ${name}`));
