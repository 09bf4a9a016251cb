// title: Text of a hundred thousand brackets given to eval is an error that is caught
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let caught = false;
try { (0, eval)("(".repeat(100000)); } catch (error) { caught = /SyntaxError|RangeError|InternalError/.test(error.name); }
return [caught, await host.echo(1)];
