// title: Lines written after the value has been decided are kept, and the value stays as it was
// family: 27
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"n": 1}, "logs": ["after"]}
// within: 2

const answer = { n: 1 };
host.slow(1).then(() => { answer.n = 2; console.log("after"); });
return answer;
