// title: An async generator that yields while it is closed is closed all the same
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, "closing", {"value": "more", "done": false}]}
// within: 2

const seen = [];
async function* odd() { try { yield 1; } finally { seen.push("closing"); yield "more"; } }
const made = odd();
seen.push((await made.next()).value);
seen.push(await made.return("x"));
return seen;
