// title: Promises that wait for each other are stuck, at once
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "stuck"}
// within: 2

let open;
const first = new Promise((yes) => { open = yes; });
const second = first.then(() => third);
const third = second.then(() => open());
await third;
