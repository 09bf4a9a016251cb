// title: An argument that does not fit a frame fails that call only, and so does a result
// family: 26
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["refused", "refused", 1], "called": 2}
// within: 2
// limits: {"max_message_bytes": 1000}

const found = [];
try { await host.echo("x".repeat(2000)); } catch { found.push("refused"); }
try { await host.big(2000); } catch { found.push("refused"); }
return [...found, await host.echo(1)];
