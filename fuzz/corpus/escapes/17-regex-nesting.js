// title: A regular expression of nested groups without end is an error that is caught
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["SyntaxError", 1]}
// within: 2

let name = "made";
try { new RegExp("(".repeat(100000) + ")".repeat(100000)); } catch (error) { name = error.name; }
return [name, await host.echo(1)];
