// title: A switch of fifty thousand cases given to eval is compiled or ends by a limit
// family: 20
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 3
// limits: {"cpu": 0.3}

const text = Array.from({ length: 20000 }, (_, at) => `case ${at}: x += ${at};`).join("");
for (;;) (0, eval)(`var x = 0; switch (19999) { ${text} }`);
