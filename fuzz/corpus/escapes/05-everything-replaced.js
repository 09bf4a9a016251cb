// title: With every method of every global replaced, calls, logs and the value cross unchanged
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"a": [1.5, "ü", null]}, "logs": ["{x: 1}"], "calls": [["echo", {"a": [1.5, "ü", null]}]]}
// within: 2

const wanted = { a: [1.5, "ü", null] };
const { ownKeys, defineProperty } = Reflect;
const kinds = [Object, Array, String, Number, Boolean, Symbol, BigInt, Math, JSON, Reflect, Promise, RegExp, Date, Map, Set, Function, Error, Uint8Array];
const forged = () => { throw "forged"; };
for (let at = 0; at < kinds.length; at += 1) {
  const targets = [kinds[at], kinds[at].prototype];
  for (let side = 0; side < 2; side += 1) {
    const target = targets[side];
    if (target === undefined) continue;
    const keys = ownKeys(target);
    for (let number = 0; number < keys.length; number += 1) {
      try { defineProperty(target, keys[number], { value: forged, configurable: true, writable: true }); } catch {}
    }
  }
}
console.log({ x: 1 });
return await host.echo(wanted);
