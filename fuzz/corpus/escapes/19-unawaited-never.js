// title: A call nobody awaits and nobody answers holds the run to its deadline
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "timeout", "called": 1}
// within: 2
// limits: {"timeout": 0.2}

host.never(1);
return "done";
