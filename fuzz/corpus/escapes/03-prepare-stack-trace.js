// title: Error.prepareStackTrace is given no frame of ours
// family: 3
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": []}
// within: 2

const seen = [];
Error.prepareStackTrace = (error, frames) => {
  for (const frame of Array.isArray(frames) ? frames : []) {
    seen.push(String(frame.getFileName?.() ?? ""), String(frame.getFunctionName?.() ?? ""));
    if (frame.getThis?.() !== undefined || frame.getFunction?.() !== undefined) seen.push("leak");
  }
  return "mine";
};
try { null.x; } catch (error) { String(error.stack); }
try { await host.fail("x"); } catch (error) { String(error.stack); }
return seen.filter((name) => /prelude|ptc|internal|leak|\.py/.test(name));
