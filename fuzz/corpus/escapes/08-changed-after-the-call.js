// title: What is changed after a call, also while it waits, does not cross
// family: 8
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 2]}
// within: 2
// limits: {"max_pending_calls": 1}

const mine = { n: 1 };
const first = host.echo(mine);
mine.n = 2;
const second = host.echo(mine);
mine.n = 3;
return [(await first).n, (await second).n];
