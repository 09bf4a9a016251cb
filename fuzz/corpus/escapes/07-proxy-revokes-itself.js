// title: A proxy that revokes itself while it is read is refused
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "refused", "calls": []}
// within: 2

const { proxy, revoke } = Proxy.revocable({ a: 1, b: 2 }, { getOwnPropertyDescriptor(target, key) { revoke(); return Reflect.getOwnPropertyDescriptor(target, key); } });
try { return await host.echo(proxy); } catch { return "refused"; }
