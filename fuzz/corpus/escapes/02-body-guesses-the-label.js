// title: A body that closes its block and breaks to a label of ours is a syntax error
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["SyntaxError"]}
// within: 2

break L; }} console.log("ran"); L: {{
