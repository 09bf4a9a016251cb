// title: A static import is a syntax error
// family: 12
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"kind": "exception", "says": ["SyntaxError"]}
// within: 2

import fs from "fs";
return 1;
