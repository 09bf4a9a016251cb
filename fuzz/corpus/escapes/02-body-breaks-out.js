// title: A body that closes the function around it and opens another is a syntax error and runs nothing
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["SyntaxError"]}
// within: 2

} globalThis.out = 1; console.log("ran"); async function more() {
