// title: Hidden properties and symbol keys are refused, a null prototype is not, cycles are
// family: 23
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["args: hidden property \"a\"", "args: symbol key", "args.self: cycle", {"a": 1}, [[1], [1]]]}
// within: 2

const cycle = {};
cycle.self = cycle;
const shared = [1];
const found = [];
for (const value of [Object.defineProperty({}, "a", { value: 1 }), { [Symbol("s")]: 1 }, cycle, Object.assign(Object.create(null), { a: 1 }), [shared, shared]]) {
  try { found.push(await host.echo(value)); } catch (error) { found.push(error.message); }
}
return found;
