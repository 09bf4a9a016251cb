// title: The constructor of an async function makes functions of the realm only
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", "undefined", "undefined"]}
// within: 2

const make = (async () => {}).constructor;
return await Promise.all(["process", "require", "std", "os", "host"].map((name) => make(`return typeof ${name}`)()));
