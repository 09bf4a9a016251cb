// title: The edges of numbers cross exactly
// family: 22
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": [2147483648, 9007199254740991, 9007199254740992.0, 1e+300, 5e-324, 1, true, "9223372036854775808", "bigint"]}
// within: 2

const from = await host.odd("2**63");
return [...(await host.echo([2 ** 31, 2 ** 53 - 1, 2 ** 53, 1e300, 5e-324, 1.0])),
  (await host.odd("1.0")) === 1, String(from), typeof (await host.odd("2**53"))];
