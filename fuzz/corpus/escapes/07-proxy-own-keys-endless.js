// title: A proxy whose ownKeys loops ends by the CPU limit
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

await host.echo(new Proxy({}, { ownKeys() { for (;;); } }));
