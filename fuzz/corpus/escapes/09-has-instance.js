// title: A class that claims every instance changes nothing of what is refused
// family: 9
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "args: Map is not JSON"}
// within: 2

Object.defineProperty(Map, Symbol.hasInstance, { value: () => false });
Object.defineProperty(Object, Symbol.hasInstance, { value: () => true });
try { return await host.echo(new Map()); } catch (error) { return error.message; }
