// title: A proxy that claims thousands of keys is refused by the token budget
// family: 7
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": "args.k999: more than 1000 tokens", "calls": []}
// within: 2
// limits: {"max_value_tokens": 1000}

const names = Array.from({ length: 5000 }, (_, at) => "k" + at);
const flood = new Proxy({}, {
  get: () => 1,
  ownKeys: () => names,
  getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }),
});
try { await host.echo(flood); return "sent"; } catch (error) { return error.message; }
