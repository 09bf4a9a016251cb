// title: import.meta is a syntax error
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["SyntaxError"]}
// within: 2

return import.meta.url;
