// title: A then that is another thing at each read settles once
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, "second"]}
// within: 2

let reads = 0;
const odd = { get then() { reads += 1; return reads === 1 ? (yes) => yes("second") : undefined; } };
const got = await odd;
return [reads, got];
