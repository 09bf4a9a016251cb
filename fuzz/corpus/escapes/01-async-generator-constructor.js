// title: The constructor of an async generator function makes functions of the realm only
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", "undefined", "undefined"]}
// within: 2

const make = Object.getPrototypeOf(async function* () {}).constructor;
const found = [];
for (const name of ["process", "require", "std", "os", "host"]) {
  found.push((await make(`yield typeof ${name}`)().next()).value);
}
return found;
