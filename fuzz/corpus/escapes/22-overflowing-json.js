// title: 1e400 in JSON text is refused on its way from the host
// family: 22
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["result: Infinity is not JSON", "result: -0 is not JSON", null]}
// within: 2

const text = (json) => host.parse(json).catch((error) => error.message);
return [await text("1e400"), await text("-0.0"), await text("null")];
