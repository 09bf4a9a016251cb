// title: The constructor of a bound function, and of a proxy around it, is the realm's
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, true, "undefined"]}
// within: 2

const bound = function () {}.bind(null);
const veiled = new Proxy(bound, {});
return [bound.constructor === Function, veiled.constructor === Function, veiled.constructor("return typeof process")()];
