// title: A regular expression's lastIndex is each run's own
// family: 31
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 2]}
// within: 2
// runs: 2
// together: 3

const step = /a/g;
step.test("aaa");
const before = step.lastIndex;
await host.slow(1);
step.test("aaa");
return [before, step.lastIndex];
