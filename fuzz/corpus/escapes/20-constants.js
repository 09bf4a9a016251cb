// title: A million constants given to eval end by a limit
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 3
// limits: {"cpu": 0.3}

const text = "[" + Array.from({ length: 100000 }, (_, at) => at + 0.5).join(",") + "]";
for (;;) (0, eval)(text).length;
