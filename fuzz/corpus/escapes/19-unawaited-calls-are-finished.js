// title: Calls nobody awaits are made and answered before the run ends
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "early", "called": 3, "logs": ["1", "2", "3"]}
// within: 2

for (const one of [1, 2, 3]) host.slow(one).then((value) => console.log(value));
return "early";
