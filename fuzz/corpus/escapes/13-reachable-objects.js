// title: Every object that is reachable from the global one is of the language
// family: 13
// engines: ["quickjs", "quickjs-spawned", "v8"]
// form: "async"
// expect: {"value": []}
// within: 4
// limits: {"cpu": 5}

const odd = /^(std|os|bjson|Atomics|SharedArrayBuffer|WeakRef|FinalizationRegistry|Worker|print|gc|__ptc.*)$/;
const seen = new Set(), found = new Set(), waiting = [globalThis, host, console, (function* () {})(), (async function* () {})(), new Map().entries(), Symbol.iterator];
while (waiting.length > 0) {
  const at = waiting.pop();
  if ((typeof at !== "object" && typeof at !== "function") || at === null || seen.has(at)) continue;
  seen.add(at);
  waiting.push(Object.getPrototypeOf(at));
  for (const key of Reflect.ownKeys(at)) {
    const slot = Object.getOwnPropertyDescriptor(at, key);
    if (odd.test(String(key))) found.add(String(key));
    waiting.push(slot.value, slot.get, slot.set);
  }
}
for (const at of seen) if (typeof at === "function" && odd.test(at.name)) found.add(at.name);
return [...found].sort();
