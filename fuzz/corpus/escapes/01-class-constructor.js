// title: The constructors reached through classes, methods, getters and setters are the realm's
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, true, true, true, true]}
// within: 2

class Own { static make() {} get value() { return 1; } set value(to) {} method() {} }
const { get, set } = Object.getOwnPropertyDescriptor(Own.prototype, "value");
return [Own, Own.make, get, set, new Own().method].map((from) => from.constructor === Function);
