// title: A regular expression of a megabyte given to eval is an error or compiled, and ends by a limit
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 3
// limits: {"cpu": 0.3}

const text = "/" + "(a|b)?".repeat(20000) + "/";
for (;;) { try { (0, eval)(text).test("ab"); } catch {} }
