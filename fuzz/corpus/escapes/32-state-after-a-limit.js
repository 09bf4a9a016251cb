// title: What a run that was killed leaves never reaches the next
// family: 32
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit", "calls": [["echo", "undefined"]]}
// within: 2
// limits: {"cpu": 0.1}
// runs: 2

await host.echo(typeof globalThis.left);
globalThis.left = 1;
for (;;);
