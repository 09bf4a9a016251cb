// title: The constructor of an arrow function makes functions of the realm only
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", "undefined", "undefined"]}
// within: 2

const make = (() => {}).constructor;
return ["process", "require", "std", "os", "host"].map((name) => make(`return typeof ${name}`)());
