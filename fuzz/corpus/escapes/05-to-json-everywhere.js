// title: toJSON on every prototype is never asked
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"a": [1, "b", true]}, "logs": ["{a: [1, \"b\", true]}"]}
// within: 2

for (const kind of [Object, Array, String, Number, Boolean]) {
  kind.prototype.toJSON = () => { console.log("asked"); return "forged"; };
}
console.log({ a: [1, "b", true] });
return await host.echo({ a: [1, "b", true] });
