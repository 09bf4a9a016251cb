// title: A buffer that is detached in the middle of a copy is no trouble
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["TypeError", 0, 1]}
// within: 2

const buffer = new ArrayBuffer(64);
const view = new Uint8Array(buffer);
const found = [];
try { view.fill({ valueOf() { buffer.transfer(0); return 7; } }); found.push("filled"); } catch (error) { found.push(error.name); }
return [...found, view.length, await host.echo(1)];
