// title: Normalising a long text of combining marks ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.2}

const marks = "a" + "\u0301\u0323".repeat(20000);
for (;;) { marks.normalize("NFKD"); marks.normalize("NFC"); }
