// title: A host function that runs the same program again is no trouble
// family: 30
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [3, [2, [1, [0]]]]}
// within: 2
// input: 3

return input === 0 ? [0] : [input, await host.again(input - 1)];
