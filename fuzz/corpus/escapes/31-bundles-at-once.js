// title: Runs of one bundle at the same time see only their own state
// family: 31
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": {"count": 1}}
// within: 2
// together: 3

let count = 0;
async function run() { count += 1; await tool("slow", {}); return { count }; }
