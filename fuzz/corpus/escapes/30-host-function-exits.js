// title: SystemExit in a host function kills the run and reaches the host's caller
// family: 30
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"raises": "SystemExit", "called": 1}
// within: 2

try { await host.end("exit"); } catch {}
for (;;) await host.echo(1);
