// title: A loop that catches everything and begins again ends, and no handler runs
// family: 14
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "compute-limit", "entries": 0}
// within: 2
// limits: {"cpu": 0.1}

for (;;) {
  try { for (;;); } catch { console.log("caught"); } finally { console.log("finally"); }
}
