// title: A call that loses a race and then fails is no failure of the run
// family: 19
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 1, "called": 2}
// within: 2

const lost = host.slow(2).then(() => { throw new Error("late"); });
return await Promise.race([host.echo(1), lost]).finally(() => lost.catch(() => {}));
