// title: JSON.stringify of a deep array is an error that is caught, or an answer
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["RangeError", 1]}
// expect_on: {"v8": {"value": ["none", 1]}}
// within: 2

let deep = [];
for (let at = 0; at < 50000; at += 1) deep = [deep];
let name = "none";
try { JSON.stringify(deep); } catch (error) { name = error.name; }
return [name, await host.echo(1)];
