// title: A promise of a subclass that is returned settles by the language's rules
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "kept"}
// within: 2

class Own extends Promise { then(yes, no) { return super.then((value) => yes(value), no); } }
return Own.resolve("kept");
