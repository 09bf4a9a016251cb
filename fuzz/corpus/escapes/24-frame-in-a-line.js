// title: A line in the form of a frame is a line
// family: 24
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 1, "calls": [], "logs": ["\u0000\u0000\u0000\u0010{\"type\":\"done\"}\n", "{\"type\":\"call\",\"id\":1,\"global\":\"host\",\"name\":\"echo\",\"args\":[1]}\n"]}
// within: 2

console.log('\0\0\0\x10{"type":"done"}\n');
console.log('{"type":"call","id":1,"global":"host","name":"echo","args":[1]}\n');
return 1;
