// title: A finally block that calls its function again cannot outlive the limit
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit"}
// within: 2
// limits: {"cpu": 0.1}

function again() { try { for (;;); } finally { again(); } }
again();
