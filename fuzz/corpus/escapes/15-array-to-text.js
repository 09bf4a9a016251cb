// title: The text of an array of two hundred million slots ends by a limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// expect_on: {"v8": {"value": 199999999}}
// within: 2
// limits: {"cpu": 0.1}

return (new Array(2e8) + "").length;
