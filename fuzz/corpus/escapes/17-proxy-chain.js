// title: A chain of twenty thousand proxies is an error that is caught or an answer, never a crash
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let chain = { a: 1 };
for (let at = 0; at < 20000; at += 1) chain = new Proxy(chain, {});
let ended = false;
try { chain.a; ended = true; } catch { ended = true; }
try { await host.echo(chain); } catch {}
return [ended, await host.echo(1)];
