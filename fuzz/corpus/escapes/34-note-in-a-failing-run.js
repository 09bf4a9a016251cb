// title: A note of a run that fails afterwards is kept: it was remembered before
// family: 34
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "fell_back", "reason": "threw", "notes": ["before the failure"]}
// within: 2

async function run() { await remember("before the failure"); throw new Error("failed"); }
