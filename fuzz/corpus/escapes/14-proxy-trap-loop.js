// title: A loop in a proxy trap that the console meets, or the program, ends by the CPU limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

const trap = new Proxy({}, { has() { for (;;); }, get() { for (;;); } });
return "a" in trap;
