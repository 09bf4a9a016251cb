// title: A thenable that resolves twice and then throws counts once
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "first"}
// within: 2

return { then(yes, no) { yes("first"); yes("second"); no("third"); throw "fourth"; } };
