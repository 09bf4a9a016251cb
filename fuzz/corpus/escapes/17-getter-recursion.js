// title: A getter that reads itself is an error that is caught, also while an argument is read
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["RangeError", "refused", 1]}
// within: 2

const found = [];
const self = { get a() { return self.a; } };
try { self.a; } catch (error) { found.push(error.name); }
try { await host.echo(self); } catch { found.push("refused"); }
return [...found, await host.echo(1)];
