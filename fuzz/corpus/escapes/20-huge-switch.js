// title: A switch of twenty thousand cases given to eval, over and over, ends by the CPU limit
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 3
// limits: {"cpu": 0.3, "memory": 536870912}

const text = Array.from({ length: 20000 }, (_, at) => `case ${at}: x += ${at};`).join("");
for (;;) (0, eval)(`var x = 0; switch (19999) { ${text} }`);
