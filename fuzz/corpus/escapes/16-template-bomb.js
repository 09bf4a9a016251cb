// title: A template that holds itself twice, again and again, ends by a limit or is an error that is caught
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (;;) {
  let text = `${held.length}`;
  try { for (let at = 0; at < 22; at += 1) text = `${text}${text}`; } catch {}
  held.push([...text.slice(0, 20000)]);
}
