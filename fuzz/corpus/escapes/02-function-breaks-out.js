// title: Text that closes the function a constructor builds reaches the realm at most
// family: 2
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined"]}
// within: 2

// Engines differ in what they take; what runs runs outside of every function of ours.
return [["}); globalThis.out = typeof host; (() => {"], ["a = 1) { globalThis.out = typeof host } function (b", ""], ["/*", "*/){"]].map((parts) => {
  try { Function(...parts)(); } catch {}
  return globalThis.out === undefined ? "undefined" : globalThis.out;
});
