// title: Dynamic import rejects, whatever the name
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["no", "no", "no", "no", "no", "no", "no"]}
// within: 2

const names = ["fs", "std", "../../etc/passwd", "file:///etc/passwd", "data:text/javascript,1", "a\0b", "\u217Ds"];
return await Promise.all(names.map((name) => import(name).then(() => "imported", () => "no")));
