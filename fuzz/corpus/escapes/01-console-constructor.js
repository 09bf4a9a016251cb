// title: The constructor of a console function makes nothing of the host
// family: 1
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": ["undefined", "undefined", "undefined", true]}
// within: 2

const make = console.log.constructor;
const names = ["process", "host", "__ptc_send"];
return [...names.map((name) => make(`return typeof ${name}`)()), make === Function];
