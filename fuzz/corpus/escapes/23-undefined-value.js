// title: undefined as value is no value, and inside a value it is refused with its path
// family: 23
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "invalid-output", "says": ["value.a[1]: undefined is not JSON"]}
// within: 2

return { a: [1, undefined] };
