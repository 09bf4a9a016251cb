// title: A module name that runs code when it becomes text rejects the import and nothing else
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["no", true]}
// within: 2

let ran = 0;
const name = { toString() { ran += 1; return "fs"; } };
const answer = await import(name).then(() => "imported", () => "no");
return [answer, ran < 2];
