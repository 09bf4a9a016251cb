// title: Functions in functions, three thousand deep, given to eval are an answer or an error, never a crash
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let ended = false;
try { (0, eval)("(()=>".repeat(3000) + "1" + ")".repeat(3000)); ended = true; } catch { ended = true; }
return [ended, await host.echo(1)];
