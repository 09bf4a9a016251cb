// title: HTML comments and a hash-bang in the middle hide no code
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["SyntaxError"]}
// within: 2

return 1;
#!/usr/bin/env node
