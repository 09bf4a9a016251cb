// title: Promise species is not consulted for what crosses
// family: 6
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 0]}
// within: 2

let made = 0;
Object.defineProperty(Promise, Symbol.species, { get() { made += 1; return class { constructor(run) { run(() => {}, () => {}); } }; } });
const first = await host.echo(1);
return [first, made];
