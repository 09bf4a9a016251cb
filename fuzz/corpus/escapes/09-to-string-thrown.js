// title: A thrown object whose toString throws itself is one exception
// family: 9
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception"}
// within: 2

const nasty = { toString() { throw nasty; }, valueOf() { throw nasty; }, get name() { throw nasty; } };
throw nasty;
