// title: The deadline ends a native that never asks whether it should stop
// family: 28
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "timeout"}
// within: 2
// limits: {"timeout": 0.2}

return new Array(4294967295).sort().length;
