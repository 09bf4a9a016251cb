// title: A valueOf that gives another type each time changes nothing of ours
// family: 9
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["1", 2, "args: class instance is not JSON"]}
// within: 2

let turn = 0;
class Odd { valueOf() { turn += 1; return turn === 1 ? "1" : 2; } }
const odd = new Odd();
const found = ["" + odd, +odd];
try { await host.echo(odd); } catch (error) { found.push(error.message); }
return found;
