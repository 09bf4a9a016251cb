// title: The functions a thenable is given lead to nothing of the host
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", true, 1]}
// within: 2

let given;
await { then(yes) { given = yes; yes(1); } };
return [given.constructor("return typeof process")(), given.constructor === Function, given.length];
