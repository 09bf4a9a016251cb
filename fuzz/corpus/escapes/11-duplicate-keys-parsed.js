// title: A key twice in JSON text: the last one counts, in the program and in the host alike
// family: 11
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [{"id": 2}, {"id": 2}]}
// within: 2

const text = '{"id": 1, "id": 2}';
return [await host.parse(text), JSON.parse(text)];
