// title: A single reservation that is refused is an error of the program, which goes on
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["RangeError", 1]}
// within: 2

let name = "made";
try { new Uint8Array(2 ** 40); } catch (error) { name = error.name; }
return [name, await host.echo(1)];
