// title: A Map with ten million keys comes to the memory limit
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const map = new Map();
for (let at = 0; at < 1e7; at += 1) map.set(at, [at]);
return map.size;
