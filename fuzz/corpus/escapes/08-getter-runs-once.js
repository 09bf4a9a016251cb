// title: A getter that answers differently is read once, and that is what crosses
// family: 8
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [1, 1], "calls": [["echo", {"ok": 1}]]}
// within: 2

let reads = 0;
const answer = await host.echo({ get ok() { reads += 1; return reads; } });
return [answer.ok, reads];
