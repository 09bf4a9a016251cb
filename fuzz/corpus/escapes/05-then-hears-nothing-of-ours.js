// title: A patched then is given no function of ours to call
// family: 5
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": 0}
// within: 2

let taken = 0;
const then = Promise.prototype.then;
Promise.prototype.then = function (yes, no) {
  if (!String(yes).includes("mine")) taken += 1;
  return then.call(this, yes, no);
};
await host.echo(1);
return taken;
