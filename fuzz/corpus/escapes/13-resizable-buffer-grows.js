// title: A resizable buffer that reserves and grows ends by the memory limit or fails before it costs anything
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "memory-limit"}
// within: 4
// limits: {"memory": 33554432, "cpu": 5}

const held = [];
for (;;) {
  try {
    const buffer = new ArrayBuffer(1024, { maxByteLength: 8 << 20 });
    buffer.resize(8 << 20);
    new Uint8Array(buffer).fill(1);
    held.push(buffer);
  } catch { held.push(new Array(100000).fill(held.length)); }
}
