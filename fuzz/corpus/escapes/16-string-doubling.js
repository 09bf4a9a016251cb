// title: A string that doubles ends by the memory limit, also with its errors caught
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (;;) {
  let text = "x" + held.length;
  try { while (text.length < 2 ** 22) { text += text; held.push(text + "!"); held.at(-1).indexOf("y"); } } catch {}
}
