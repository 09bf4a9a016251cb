// title: A forged array iterator changes nothing of what crosses
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 2, 3], "logs": ["1 2"]}
// within: 2

Array.prototype[Symbol.iterator] = function* () { yield "forged"; };
String.prototype[Symbol.iterator] = function* () { yield "forged"; };
Map.prototype[Symbol.iterator] = Set.prototype[Symbol.iterator] = function* () { yield "forged"; };
Object.getPrototypeOf(Object.getPrototypeOf(new Map().entries())).next = () => ({ done: true });
console.log(1, 2);
return await host.echo([1, 2, 3]);
