// title: Setters on Object.prototype catch nothing of ours
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [{"type": "x", "id": 9}, 0]}
// within: 2

let caught = 0;
for (const name of ["type", "id", "ok", "value", "args", "global", "name", "message", "error", "kind", "keys", "length", "text", "level", "cut"]) {
  Object.defineProperty(Object.prototype, name, { __proto__: null, set() { caught += 1; }, get() { return "forged"; }, configurable: true });
}
const answer = await host.echo({ type: "x", id: 9 });
const seen = caught;
for (const name of ["type", "id", "length", "value", "name"]) delete Object.prototype[name];
return [answer, seen];
