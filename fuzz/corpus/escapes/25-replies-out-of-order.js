// title: Answers that come in another order than the calls reach their own calls
// family: 25
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["slow", "echo", "slow too"]}
// within: 2

return await Promise.all([host.slow("slow"), host.echo("echo"), host.slow("slow too")]);
