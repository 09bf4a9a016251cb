// title: A host error crosses as its text: no class, cause, path, note or Python stack
// family: 4
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["Error", "only this", false, "undefined", true], "calls": [["leaky", "only this"]]}
// within: 2

try { await host.leaky("only this"); } catch (error) {
  const all = Reflect.ownKeys(error).map((key) => String(error[key])).join(" ") + error.stack;
  return [error.name, error.message, /\.py|PermissionError|etc|line \d+, in/.test(all), typeof error.cause, error instanceof Error];
}
