// title: A chain of a hundred thousand operators given to eval is an answer or an error, never a crash
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let ended = false;
try { (0, eval)("1" + "+1".repeat(100000)); ended = true; } catch { ended = true; }
return [ended, await host.echo(1)];
