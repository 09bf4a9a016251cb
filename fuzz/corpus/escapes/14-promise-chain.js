// title: Two promise chains that feed each other end by the CPU limit, before a word is answered
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

const spin = async () => { for (;;) await null; };
spin();
return await host.never(1);
