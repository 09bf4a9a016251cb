// title: Recursion without end is an error that is caught, and the run goes on
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["RangeError", 1]}
// within: 2

let name;
const fall = () => fall() + 1;
try { fall(); } catch (error) { name = error.name; }
return [name, await host.echo(1)];
