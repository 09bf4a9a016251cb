// title: A tool that is not on the whitelist, tried for ever, is never called and ends by the fuel
// family: 29
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "incomplete", "reason": "steps", "calls": []}
// within: 2
// limits: {"steps": 20}
// whitelist: ["echo"]

async function run() { for (;;) { try { await tool("f" + "ail", {}); } catch {} } }
