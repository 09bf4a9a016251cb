// title: More calls at once than may be unfinished wait their turn and all succeed
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 499500, "called": 1000}
// within: 2

const all = await Promise.all(Array.from({ length: 1000 }, (_, at) => host.echo(at)));
return all.reduce((sum, one) => sum + one, 0);
