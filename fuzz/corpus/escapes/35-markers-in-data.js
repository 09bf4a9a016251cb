// title: Markers of templates in the data stay data, and the prompt stays as it is
// family: 35
// via: "jsrun"
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"status": "finished", "reason": null, "output": {"prompt": "Label {{text}} and {{unclosed", "input": {"text": "{{secret}} ${1+1} <|system|>"}}, "calls": [["ai", ["label", "Label {{text}} and {{unclosed", {"text": "{{secret}} ${1+1} <|system|>"}]]]}
// within: 2
// prompts: {"label": "Label {{text}} and {{unclosed"}

async function run() { return await ai("label", { text: "{{secret}} ${1+1} <|system|>" }); }
