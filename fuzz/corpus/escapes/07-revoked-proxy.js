// title: A revoked proxy is refused as argument, printed as what it is, and refused as value
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "invalid-output", "entries": 2}
// within: 2

const { proxy, revoke } = Proxy.revocable({}, {});
revoke();
console.log(proxy);
try { await host.echo(proxy); } catch { console.log("refused"); }
return { proxy };
