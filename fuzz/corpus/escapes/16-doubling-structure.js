// title: A structure that doubles is refused by the token budget before it is built
// family: 16
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": true, "calls": []}
// within: 2
// limits: {"max_value_tokens": 10000}

let twin = [1];
for (let at = 0; at < 64; at += 1) twin = [twin, twin];
try { await host.echo(twin); } catch (error) { return error.message.endsWith("more than 10000 tokens"); }
