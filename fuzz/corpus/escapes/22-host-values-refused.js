// title: Host values that are no JSON fail that call with path and type
// family: 22
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["result: NaN is not JSON", "result: Infinity is not JSON", "result: -0 is not JSON", "result: Decimal is not JSON", "result: datetime is not JSON", "result: bytes is not JSON", "result: set is not JSON", "result: _Dict is not JSON", "result: key of type int is not a string", "result[0]: cycle", "result: integer of more than 4300 digits", "result: ValueError is not JSON", "result: builtin_function_or_method is not JSON"]}
// within: 2

const names = ["nan", "infinity", "minus zero", "decimal", "datetime", "bytes", "set", "subclass", "key", "cycle", "5000 digits", "exception", "function"];
const found = [];
for (const name of names) {
  try { await host.odd(name); found.push("sent"); } catch (error) { found.push(error.message); }
}
return found;
