// title: A buffer that shrinks under its views while they are read is no trouble
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [4, "args: Uint8Array is not JSON", 0]}
// within: 2

const buffer = new ArrayBuffer(16, { maxByteLength: 64 });
const view = new Uint8Array(buffer);
const sorted = new Uint8Array(buffer);
sorted.sort(() => { buffer.resize(4); return 1; });
const found = [view.length];
try { await host.echo(view); } catch (error) { found.push(error.message); }
buffer.transfer(0);
return [...found, view.length];
