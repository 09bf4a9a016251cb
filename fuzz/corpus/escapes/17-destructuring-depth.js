// title: A pattern of twenty thousand levels given to eval is an error that is caught
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let caught = false;
try { (0, eval)("var " + "[".repeat(20000) + "a" + "]".repeat(20000) + " = []"); } catch { caught = true; }
return [caught, await host.echo(1)];
