// title: A million lines end by the output limit, the first ones kept
// family: 18
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "output-limit", "entries": 2496}
// within: 2
// limits: {"max_output_bytes": 20000, "cpu": 5}

for (let at = 0; at < 1e6; at += 1) console.log("flood");
