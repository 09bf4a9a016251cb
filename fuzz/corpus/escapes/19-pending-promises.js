// title: A million promises that never settle come to the memory limit or are stuck
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (let at = 0; at < 1e7; at += 1) held.push(new Promise((yes) => { held.at(-1)?.then?.(yes); }));
await Promise.race(held);
