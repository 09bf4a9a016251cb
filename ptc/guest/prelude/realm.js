// Realm: the global object as the program sees it.

const GLOBAL_NAMES =
  " Object Function Array String Number Boolean Symbol BigInt Math JSON Reflect Proxy Promise RegExp Date Map Set" +
  " WeakMap WeakSet Iterator ArrayBuffer DataView Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array" +
  " Int32Array Uint32Array Float32Array Float64Array BigInt64Array BigUint64Array Error AggregateError EvalError" +
  " RangeError ReferenceError SyntaxError TypeError URIError globalThis undefined NaN Infinity eval isFinite isNaN" +
  " parseFloat parseInt decodeURI decodeURIComponent encodeURI encodeURIComponent queueMicrotask performance console ";

const clock = { __proto__: null, start: 0 };
const milliseconds = () => (engineNow === undefined ? dateNow() : engineNow(enginePerformance));
const programConsole = makeConsole();

function trimGlobals() {
  defineProperty(globalThis, "console", dataDescriptor(programConsole, false));
  const performance = {
    now() {
      return milliseconds() - clock.start;
    },
  };
  defineProperty(globalThis, "performance", dataDescriptor(performance, false));
  defineProperty(globalThis, "queueMicrotask", dataDescriptor(makeQueueMicrotask(), false));
  const keys = ownKeys(globalThis);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    const wanted = typeof key === "string" && stringIndexOf(GLOBAL_NAMES, " " + key + " ") >= 0;
    // What an embedding has declared as a variable cannot be deleted, only emptied.
    if (!wanted && !deleteProperty(globalThis, key)) globalThis[key] = undefined;
  }
}

// Of the language's neighbours. A bare V8 does not have it, and in QuickJS a job that throws ends the engine's loop; here
// what is thrown counts as a rejection nobody handles.
function makeQueueMicrotask() {
  const settled = new PromiseOf((resolve) => resolve());
  defineProperty(settled, "constructor", dataDescriptor(undefined, false)); // `then` asks it for the species
  return {
    queueMicrotask(callback) {
      if (typeof callback !== "function") throw new TypeErrorOf("queueMicrotask needs a function");
      promiseThen(settled, () => {
        try {
          callback();
        } catch (thrown) {
          mapSet(rejected, { __proto__: null }, thrown);
        }
      });
    },
  }.queueMicrotask;
}

trimGlobals();

