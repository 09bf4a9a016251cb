// title: Direct eval sees the program's scope and nothing around it
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["object", "undefined", "undefined", "undefined"]}
// within: 2

const names = ["host", "process", "require", "__ptc_send"];
return names.map((name) => eval(`typeof ${name}`));
