// title: A call made while an answer is being used calls nothing twice
// family: 30
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [2, 1], "calls": [["echo", 1], ["echo", 2]]}
// within: 2

const target = { set slot(value) { target.next = host.echo(value + 1); } };
target.slot = await host.echo(1);
return [await target.next, 1];
