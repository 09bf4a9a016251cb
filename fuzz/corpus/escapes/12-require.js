// title: require, module and exports are not there
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", "undefined", "undefined"]}
// within: 2

return [typeof require, typeof module, typeof exports, typeof __filename, typeof define];
