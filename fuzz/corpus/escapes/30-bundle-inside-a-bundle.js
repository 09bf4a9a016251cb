// title: A tool that runs the same bundle again is no trouble
// family: 30
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": {"n": 2, "below": {"n": 1, "below": {"n": 0}}}}
// within: 2
// input: {"n": 2}

async function run(input) {
  return input.n === 0 ? { n: 0 } : { n: input.n, below: await tool("again", { n: input.n - 1 }) };
}
