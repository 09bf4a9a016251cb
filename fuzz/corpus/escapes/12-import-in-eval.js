// title: import inside eval and inside made functions rejects or is a syntax error
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["no", "no", "SyntaxError"]}
// within: 2

const found = [];
found.push(await (0, eval)('import("std")').then(() => "imported", () => "no"));
found.push(await new Function('return import("os")')().then(() => "imported", () => "no"));
try { (0, eval)('import std from "std"'); } catch (error) { found.push(error.name); }
return found;
