// title: A proxy of an object crosses by its traps, each asked in order, or is refused as a whole
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["class instance", 0]}
// within: 2

const veiled = new Proxy({ a: 1 }, { getPrototypeOf: () => Map.prototype });
try { await host.echo(veiled); return ["sent", 1]; } catch (error) { return [/class instance|Map/.test(error.message) ? "class instance" : error.message, 0]; }
