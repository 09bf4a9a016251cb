// title: A thenable that resolves with itself for ever ends by the CPU limit
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

const again = { then(yes) { yes(again); } };
return again;
