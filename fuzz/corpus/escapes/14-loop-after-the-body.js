// title: A loop in a job after the body has settled ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

Promise.resolve().then(() => Promise.resolve()).then(() => { for (;;); });
return 1;
