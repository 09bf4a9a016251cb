// title: An endless stack trace limit shows program frames only, and no more of them than are told
// family: 3
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["deep down"]}
// within: 2

Error.stackTraceLimit = Infinity;
const fall = (depth) => { if (depth === 0) throw new Error("deep down"); fall(depth - 1); };
fall(500);
