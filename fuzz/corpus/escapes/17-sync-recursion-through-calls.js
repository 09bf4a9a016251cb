// title: Recursion of a sync program that ends inside a host call is an error that is caught
// family: 17
// engines: ["quickjs", "quickjs-spawned"]
// form: "sync"
// expect: {"value": ["RangeError", 1]}
// within: 2

let name = "none";
const fall = () => { fall(); return 1; };
try { fall(); } catch (error) { name = error.name; }
return [name, host.echo(1)];
