// title: A prompt that is named in the text and is not there is found before anything runs
// family: 35
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"refused": ["missing-prompt"]}
// within: 2

async function run() { return await ai("missing", 1); }
