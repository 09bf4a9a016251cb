// title: Sparse arrays of the largest length cost nothing and are refused
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [4294967295, "args: sparse array is not JSON"]}
// within: 2

const sparse = [];
sparse.length = 2 ** 32 - 1;
try { await host.echo(sparse); } catch (error) { return [sparse.length, error.message]; }
