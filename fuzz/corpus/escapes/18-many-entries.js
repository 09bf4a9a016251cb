// title: Entries that are empty end by their number
// family: 18
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "output-limit", "entries": 500}
// within: 2
// limits: {"max_log_entries": 500, "cpu": 5}

for (;;) console.log("");
