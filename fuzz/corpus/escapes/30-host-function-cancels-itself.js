// title: CancelledError of a host function fails that call only
// family: 30
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["caught", 1]}
// within: 2

let how = "none";
try { await host.end("cancel"); } catch { how = "caught"; }
return [how, await host.echo(1)];
