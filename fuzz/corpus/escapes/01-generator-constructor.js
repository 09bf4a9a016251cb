// title: The constructor of a generator function makes functions of the realm only
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", "undefined", "undefined"]}
// within: 2

const make = Object.getPrototypeOf(function* () {}).constructor;
return ["process", "require", "std", "os", "host"].map((name) => make(`yield typeof ${name}`)().next().value);
