// title: A hundred thousand nested brackets given to eval are an error that is caught
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "caught"}
// within: 2

try { (0, eval)("[".repeat(100000) + "]".repeat(100000)); return "made"; } catch { return "caught"; }
