// title: A million distinct property names come to the memory limit
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const object = {};
for (let at = 0; ; at += 1) object["name" + at] = {};
