// title: JSON.stringify of wide objects, over and over, ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.2}

const wide = {};
for (let at = 0; at < 20000; at += 1) wide["key" + at] = [at, { at }];
for (;;) JSON.stringify(wide);
