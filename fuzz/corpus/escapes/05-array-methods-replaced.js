// title: Array methods replaced by the program change nothing of what crosses
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [[1, 2], [1, 2]], "logs": ["[1, 2]"]}
// within: 2

for (const name of Object.getOwnPropertyNames(Array.prototype)) {
  if (name !== "length" && name !== "constructor") Array.prototype[name] = () => "forged";
}
console.log([1, 2]);
return [await host.echo([1, 2]), [1, 2]];
