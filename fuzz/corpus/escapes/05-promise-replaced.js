// title: Promise and its then replaced by the program change nothing of a call
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 3, "calls": [["echo", 1], ["echo", 2]]}
// within: 2

const seen = [];
Promise.prototype.then = function (...rest) { seen.push(rest); return this; };
Promise.prototype.catch = Promise.prototype.finally = () => "forged";
globalThis.Promise = class Forged {};
const one = await host.echo(1);
return one + await host.echo(2);
