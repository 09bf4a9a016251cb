// title: flat(Infinity) of an array that holds itself is an error that is caught
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["RangeError", 1]}
// within: 2

const cycle = [];
cycle.push(cycle);
let name = "none";
try { cycle.flat(Infinity); } catch (error) { name = error.name; }
return [name, await host.echo(1)];
