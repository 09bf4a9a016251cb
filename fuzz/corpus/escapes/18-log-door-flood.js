// title: Statuses without end come to the fuel
// family: 18
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "incomplete", "reason": "steps"}
// within: 2
// limits: {"steps": 100}

async function run() { for (let at = 0; ; at += 1) await log("status " + at); }
