// title: Sparse arrays and arrays with more than elements are refused
// family: 23
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["args: sparse array is not JSON", "args: extra property \"more\" on an array", "args: symbol key", "args: extra property \"more\" on an array"]}
// within: 2

const more = Object.assign([1], { more: 2 });
const symbol = Object.assign([1], { [Symbol.iterator]: 2 });
const hidden = Object.defineProperty([1], "more", { value: 2 });
const found = [];
for (const value of [[1, , 2], more, symbol, hidden]) {
  try { await host.echo(value); found.push("sent"); } catch (error) { found.push(error.message); }
}
return found;
