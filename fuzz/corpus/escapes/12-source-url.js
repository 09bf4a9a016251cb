// title: sourceURL comments cannot make an error come from elsewhere
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["here"]}
// within: 2

//# sourceURL=/etc/passwd
//# sourceMappingURL=data:application/json,{"version":3,"sources":["/etc/passwd"],"mappings":"AAAA"}
/* </script><!-- --> */
throw new Error("here");
