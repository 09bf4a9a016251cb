// title: Everything that is no JSON is refused under its own name
// family: 23
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "function", "symbol", "Date", "Map", "Set", "WeakMap", "WeakSet", "RegExp", "Error", "ArrayBuffer", "Uint8Array", "Float64Array", "boxed primitive", "class instance"], "calls": []}
// within: 2

class Own {}
const values = [undefined, () => 1, Symbol("x"), new Date(0), new Map(), new Set(), new WeakMap(), new WeakSet(), /x/,
  new Error("x"), new ArrayBuffer(1), new Uint8Array(1), new Float64Array(1), Object(1), new Own()];
const found = [];
for (const value of values) {
  try { await host.echo(value); found.push("sent"); } catch (error) { found.push(error.message.replace("args: ", "").replace(" is not JSON", "")); }
}
return found;
