// title: BigInts cross exactly up to their limit and are refused beyond
// family: 22
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [true, 4000, "args: integer of more than 4300 digits"]}
// within: 2

const big = 2n ** 200n;
const found = [(await host.echo(big)) === big, String(await host.odd("4000 digits")).length];
try { await host.echo(10n ** 4300n); } catch (error) { found.push(error.message); }
return found;
