// title: Templates nested without end given to eval are an error that is caught
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 1]}
// within: 2

let caught = false;
try { (0, eval)("`${".repeat(20000) + "1" + "}`".repeat(20000)); } catch { caught = true; }
return [caught, await host.echo(1)];
