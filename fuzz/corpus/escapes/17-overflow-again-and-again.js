// title: Thirty overflows, each caught, leave the run in order
// family: 17
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [30, {"a": [1]}]}
// within: 4
// limits: {"cpu": 5}

let count = 0;
const fall = (depth) => { try { fall(depth + 1); } catch (error) { throw error; } };
for (let at = 0; at < 30; at += 1) { try { fall(0); } catch { count += 1; } }
return [count, await host.echo({ a: [1] })];
