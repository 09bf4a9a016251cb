// title: Error.captureStackTrace puts no frame of ours on an object
// family: 3
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": false}
// within: 2

const into = {};
const capture = Error.captureStackTrace ?? ((object) => { object.stack = new Error("x").stack; });
const texts = [];
await host.echo({ get slot() { capture(into); texts.push(String(into.stack)); return 1; } });
[1].map(() => { capture(into); texts.push(String(into.stack)); });
return texts.some((text) => /prelude|ptc|\.py|native code/.test(text));
