// title: A program that pollutes its own Object.prototype by a merge changes nothing of what crosses
// family: 10
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [{"b": 2}, {}], "calls": [["parse", "{\"__proto__\": {\"a\": 1}}"], ["echo", {"b": 2}]]}
// within: 2

const merge = (into, from) => {
  for (const key of Object.keys(from)) {
    if (typeof from[key] === "object") merge(key === "__proto__" ? Object.prototype : (into[key] ??= {}), from[key]);
    else into[key] = from[key];
  }
};
merge({}, await host.parse('{"__proto__": {"a": 1}}'));
return [await host.echo({ b: 2 }), {}];
