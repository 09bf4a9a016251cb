// title: A wide and a deep object make one bounded line
// family: 18
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": true, "entries": 2}
// within: 2

console.log(Array.from({ length: 200000 }, (_, at) => at));
console.log(Object.fromEntries(Array.from({ length: 20000 }, (_, at) => ["k" + at, { at: [at] }])));
return true;
