// title: JSON.parse of a hundred thousand brackets is an answer or an error, never a crash
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let ended = false;
try { JSON.parse("[".repeat(100000) + "]".repeat(100000)); ended = true; } catch { ended = true; }
return [ended, await host.echo(1)];
