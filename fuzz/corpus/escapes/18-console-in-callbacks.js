// title: Lines written in callbacks of calls keep their order
// family: 18
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 2, 3], "logs": ["1", "2", "3"]}
// within: 2

const noted = (value) => { console.log(value); return value; };
return await Promise.all([1, 2, 3].map((value) => host.echo(value).then(noted)));
