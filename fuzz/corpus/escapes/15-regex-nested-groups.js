// title: Nested quantifiers over a lookahead and a back reference end by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

return /^(?:(?=(a+))\1?a*)+b(?:(x+x+)+y)?$/.test("a".repeat(30000));
