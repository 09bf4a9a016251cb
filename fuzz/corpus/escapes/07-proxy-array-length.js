// title: A proxy of an array that lies about its length is refused or crosses as it says, never more
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "refused"}
// within: 2
// limits: {"cpu": 2}

const liar = new Proxy([1], { get: (target, key) => (key === "length" ? 2 ** 32 : Reflect.get(target, key)) });
try { return await host.echo(liar); } catch { return "refused"; }
