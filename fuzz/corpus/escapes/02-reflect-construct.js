// title: Reflect.construct of Function and of its subclass makes functions of the realm only
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", 7]}
// within: 2

const first = Reflect.construct(Function, ["return typeof process"]);
class Own extends Function {}
return [first(), new Own("return typeof std")(), Reflect.construct(Function, ["a", "return a + 1"], Own)(6)];
