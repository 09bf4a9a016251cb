// title: Matching the empty text for ever, with a patched lastIndex, ends by the CPU limit
// family: 15
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

const empty = /(?:)/g;
Object.defineProperty(empty, "lastIndex", { writable: true, value: 0 });
while (empty.exec("abc") !== null) empty.lastIndex = 0;
