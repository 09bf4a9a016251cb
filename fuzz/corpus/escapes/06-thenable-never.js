// title: A thenable that never calls back is stuck, at once
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "stuck"}
// within: 2

return { then() {} };
