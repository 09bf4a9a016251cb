// title: NUL, U+2028, U+2029, U+FEFF and U+FFFD cross unchanged in texts, keys and lines
// family: 21
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": {"a\u0000b": "\u2028\u2029\ufeff\ufffd\u0000"}, "logs": ["a\u0000b\u2028"]}
// within: 2

console.log("a\0b\u2028");
return await host.echo({ "a\0b": "\u2028\u2029\ufeff\ufffd\0" });
