// title: A namespace and console have no prototype and cannot be changed
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [null, null, true, true, ["TypeError", "TypeError", "TypeError"]]}
// within: 2

"use strict";
const tried = [() => { host.echo = 1; }, () => { delete console.log; }, () => { host.more = 1; }].map((change) => {
  try { change(); return "changed"; } catch (error) { return error.name; }
});
return [Object.getPrototypeOf(host), Object.getPrototypeOf(console), Object.isFrozen(host), Object.isFrozen(console), tried];
