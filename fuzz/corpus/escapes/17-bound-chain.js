// title: A function bound two thousand times over is an error that is caught or an answer, never a crash
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let chain = () => 1;
for (let at = 0; at < 2000; at += 1) chain = chain.bind(null);
let ended = false;
try { chain(); ended = true; } catch { ended = true; }
return [ended, await host.echo(1)];
