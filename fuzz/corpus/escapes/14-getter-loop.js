// title: A loop in a getter of an argument ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit", "calls": []}
// within: 2
// limits: {"cpu": 0.1}

await host.echo({ get a() { for (;;); } });
