// title: Calls made by callbacks after the body has settled are made and answered
// family: 25
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "body", "calls": [["slow", 1], ["echo", 2], ["echo", 3]]}
// within: 2

host.slow(1).then(() => host.echo(2)).then(() => host.echo(3));
return "body";
