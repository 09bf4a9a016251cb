// The guest half of the doors. `ptc` runs this text as `setup`: in the image, before it sees any program.
//
// It makes the six doors and `DoorError` fixed properties of the global object, replaces clock and randomness by
// recorded ones, and copies what the program passes out. The host repeats every check: what is decided here is only
// what cannot cross the channel, so that a refusal is a journaled call like any other.
//
// A program may replace or delete any built-in, so everything is captured first: no method is looked up on a value, no
// array is spread or iterated, objects and lists of ours have no prototype.
//
// A door call sends a list of its arguments, or, for arguments that cannot cross, {ref, refused} or {ref, size}. The
// answer is [now], [now, value] or [now, null, ref, message]: the clock in milliseconds, then what the door gives or why
// it failed; [now] alone gives undefined.

const { namespaces, onStart, refusal } = host;
const hostDoors = namespaces.jsrun_doors;

const ReflectApply = Reflect.apply;
const ReflectConstruct = Reflect.construct;
const defineProperty = Reflect.defineProperty;
const deleteProperty = Reflect.deleteProperty;
const ownKeys = Reflect.ownKeys;
const ObjectFreeze = Object.freeze;
const ObjectKeys = Object.keys;
const ObjectPrototype = Object.prototype;
const getPrototypeOf = Object.getPrototypeOf;
const setPrototypeOf = Object.setPrototypeOf;
const getOwnPropertyDescriptor = Object.getOwnPropertyDescriptor;
const hasOwn = Object.hasOwn;
const ArrayPrototype = Array.prototype;
const isArray = Array.isArray;
const uncurry = (method) => ReflectApply(Function.prototype.bind, Function.prototype.call, [method]);
const stringSlice = uncurry(String.prototype.slice);
const charCodeAt = uncurry(String.prototype.charCodeAt);
const PromiseOf = Promise;
const promiseThen = uncurry(Promise.prototype.then);
const promisePrototype = Promise.prototype;
const ErrorOf = Error;
const SetOf = Set;
const setAdd = uncurry(Set.prototype.add);
const setHas = uncurry(Set.prototype.has);
const setDelete = uncurry(Set.prototype.delete);
const DateOf = Date;
const dateToString = uncurry(Date.prototype.toString);

const NO_ARGUMENTS = ObjectFreeze(setPrototypeOf([], null));

function newList() {
  return setPrototypeOf([], null);
}

function hidden(value) {
  return { __proto__: null, value, writable: true, enumerable: false, configurable: true };
}

function shown(value) {
  return { __proto__: null, value, writable: true, enumerable: true, configurable: true };
}

// A property of the global object that a program can neither assign nor delete.
function fix(name, value) {
  defineProperty(globalThis, name, { __proto__: null, value, writable: false, enumerable: false, configurable: false });
}

// --- Clock and randomness ---

const world = { __proto__: null, start: 0, now: 0, a: 0, b: 0, c: 0, d: 0, input: null };

// A door's answer brings the time at which it was given; the clock never goes back.
function moveClock(now) {
  if (now > world.now) world.now = now;
}

const ProgramDate = function Date(...given) {
  if (new.target === undefined) return dateToString(new DateOf(world.now));
  if (given.length === 0) given = [world.now];
  return ReflectConstruct(DateOf, given, new.target);
};

function replaceDate() {
  const keys = ownKeys(DateOf);
  for (let i = 0; i < keys.length; i++) defineProperty(ProgramDate, keys[i], getOwnPropertyDescriptor(DateOf, keys[i]));
  defineProperty(ProgramDate, "now", hidden({ now: () => world.now }.now));
  defineProperty(DateOf.prototype, "constructor", hidden(ProgramDate));
  defineProperty(globalThis, "Date", hidden(ProgramDate));
}

// sfc32, a small generator in 32-bit arithmetic alone, so its sequence is the same on every engine.
function next32() {
  const sum = (((world.a + world.b) | 0) + world.d) | 0;
  world.d = (world.d + 1) | 0;
  world.a = world.b ^ (world.b >>> 9);
  world.b = (world.c + (world.c << 3)) | 0;
  world.c = (world.c << 21) | (world.c >>> 11);
  world.c = (world.c + sum) | 0;
  return sum >>> 0;
}

// 53 random bits, as many as a number below 1 has.
function random() {
  return ((next32() >>> 5) * 67_108_864 + (next32() >>> 6)) / 9_007_199_254_740_992;
}

function replaceAmbient() {
  replaceDate();
  defineProperty(Math, "random", hidden(random));
  const performance = {
    now() {
      return world.now - world.start;
    },
  };
  defineProperty(globalThis, "performance", hidden(performance));
}

// --- Copies ---

const MOST_TOKENS = 524_288; // a list of arguments with more has over 1 MiB of JSON in any case
const MOST_OUTPUT_TOKENS = 1_000_001; // one more than the channel takes, so that it refuses what ends here
const MOST_BYTES = 1_048_576; // of JSON in the arguments of one call
const REF_UNITS = 4096; // of the ref of a refused call
const SHALLOW = 8; // up to this depth looking through the open containers is cheaper than a set of them
const BIGINT_BOUND = 10n ** 4300n; // the first integer of more digits than can cross

// What the last copy was like. `bad`: something in it cannot cross; it stands in the copy at its place, as the last
// thing copied, so that whoever admits the copy finds it there. `size`: a lower bound of the bytes of its JSON.
const copied = { __proto__: null, bad: false, size: 0 };

// A copy of plain data without the object properties that are undefined. Every property is read once.
// A container being read is {up, source, keys, size, at, target}: `keys` is null for an array.
function copyOf(value, mostTokens) {
  copied.bad = false;
  copied.size = 0;
  let open = null;
  let top;
  let depth = 0;
  let ancestors = null;
  let tokens = 0;
  for (;;) {
    tokens += 1;
    if (tokens > mostTokens) {
      copied.bad = true;
      return close(open, top);
    }
    let made = value;
    let opened = null;
    if (typeof value !== "object" || value === null) {
      if (!isPlainScalar(value)) copied.bad = true;
      copied.size += typeof value === "string" ? value.length + 2 : 1;
    } else if (ancestors !== null ? setHas(ancestors, value) : isOpen(open, value)) {
      copied.bad = true;
      made = openTarget(open, value);
    } else {
      try {
        opened = readContainer(value, open);
      } catch {
        // a trap of a Proxy threw; asked again for the reason, it will say so again
      }
      if (opened === null) copied.bad = true;
      else made = opened.target;
    }
    if (open === null) top = made;
    else put(open, made);
    if (copied.bad) return close(open, top);
    if (opened !== null && opened.size > 0) {
      open = opened;
      depth += 1;
      if (ancestors !== null) setAdd(ancestors, value);
      else if (depth > SHALLOW) ancestors = setOfOpen(open);
    } else if (opened !== null) finishTarget(opened);
    // The next slot that is not left out, of the innermost container that has one.
    for (;;) {
      if (open === null) return top;
      if (++open.at === open.size) {
        if (ancestors !== null) setDelete(ancestors, open.source);
        finishTarget(open);
        open = open.up;
        depth -= 1;
        continue;
      }
      const key = open.keys === null ? open.at : open.keys[open.at];
      try {
        value = open.source[key];
      } catch (thrown) {
        copied.bad = true;
        defineProperty(open.target, key, {
          __proto__: null,
          get() {
            throw thrown;
          },
          enumerable: true,
          configurable: true,
        });
        return close(open, top);
      }
      if (value === undefined && open.keys !== null) continue;
      if (open.keys !== null) copied.size += key.length + 3;
      break;
    }
  }
}

function isPlainScalar(value) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return value - value === 0 && (value !== 0 || 1 / value > 0); // not NaN, not infinite, not -0
    case "bigint":
      return value < BIGINT_BOUND && value > -BIGINT_BOUND;
    default:
      return value === null;
  }
}

// The container to read, or null for what is neither a dense array nor a plain object.
function readContainer(source, up) {
  const prototype = getPrototypeOf(source);
  if (isArray(source)) {
    if (prototype !== ArrayPrototype) return null;
    const size = source.length;
    const keys = ownKeys(source);
    // Own keys come as indices in order, then names. If the key at `size - 1` is the last index, all are there.
    const dense = keys.length === size + 1 && keys[size] === "length" && (size === 0 || keys[size - 1] === "" + (size - 1));
    if (!dense) return null;
    copied.size += size === 0 ? 2 : size + 1;
    return { __proto__: null, up, source, keys: null, size, at: -1, target: newList() };
  }
  if (prototype !== ObjectPrototype && prototype !== null) return null;
  const keys = ownKeys(source);
  if (ObjectKeys(source).length !== keys.length) return null; // a symbol or a hidden property
  setPrototypeOf(keys, null);
  copied.size += 2;
  return { __proto__: null, up, source, keys, size: keys.length, at: -1, target: { __proto__: null } };
}

function put(open, made) {
  if (open.keys === null) open.target[open.at] = made;
  else open.target[open.keys[open.at]] = made;
}

function finishTarget(container) {
  if (container.keys === null) setPrototypeOf(container.target, ArrayPrototype);
}

// Copying ends here: make arrays of the lists that are still open.
function close(open, top) {
  for (; open !== null; open = open.up) finishTarget(open);
  return top;
}

function isOpen(open, value) {
  for (; open !== null; open = open.up) if (open.source === value) return true;
  return false;
}

function openTarget(open, value) {
  while (open.source !== value) open = open.up;
  return open.target;
}

function setOfOpen(open) {
  const all = new SetOf();
  for (; open !== null; open = open.up) setAdd(all, open.source);
  return all;
}

// A copy of the input as the program gets it: ordinary arrays and objects. Made before the program runs.
function duplicate(value) {
  if (typeof value !== "object" || value === null) return value;
  if (isArray(value)) {
    const list = [];
    for (let i = 0; i < value.length; i++) list[i] = duplicate(value[i]);
    return list;
  }
  const object = {};
  const keys = ObjectKeys(value);
  for (let i = 0; i < keys.length; i++) {
    const copy = duplicate(value[keys[i]]);
    if (keys[i] === "__proto__") defineProperty(object, keys[i], shown(copy));
    else object[keys[i]] = copy;
  }
  return object;
}

// --- DoorError ---

const DoorError = class DoorError extends ErrorOf {
  constructor(message, door = "", ref = "") {
    super(message);
    describeFailure(this, door, ref);
  }
};

function describeFailure(failure, door, ref) {
  defineProperty(failure, "name", shown("DoorError"));
  defineProperty(failure, "door", shown(door));
  defineProperty(failure, "ref", shown(ref));
}

// In an async program it is made when the call is made, so its stack, hence its position, is that of the call.
function newFailure() {
  return ReflectConstruct(ErrorOf, NO_ARGUMENTS, DoorError);
}

function completeFailure(failure, door, ref, message) {
  describeFailure(failure, door, ref);
  defineProperty(failure, "message", hidden(message));
  return failure;
}

// What the channel itself refused: a bound of it that our own checks do not know.
function channelFailure(failure, door, thrown) {
  const message = getOwnPropertyDescriptor(thrown, "message");
  return completeFailure(failure, door, "", message === undefined ? "the call failed" : stringSlice(message.value, 0, 2000));
}

// --- Doors ---

function call(door, message) {
  let answer;
  try {
    answer = hostDoors[door](message);
  } catch (thrown) {
    if (getPrototypeOf(thrown) !== ErrorOf.prototype) throw thrown; // the engine's own: no stack, no memory left
    if (door === "log") return undefined;
    throw channelFailure(newFailure(), door, thrown);
  }
  if (!isArray(answer)) return later(door, answer);
  moveClock(answer[0]);
  if (answer.length > 2) throw completeFailure(newFailure(), door, answer[2], answer[3]);
  return answer.length > 1 ? answer[1] : undefined;
}

function later(door, promise) {
  const failure = newFailure();
  let resolve;
  let reject;
  const result = new PromiseOf((onDone, onFailed) => {
    resolve = onDone;
    reject = onFailed;
  });
  // With these, neither `then` nor `await` asks Promise.prototype what the program has made of its constructor.
  defineProperty(promise, "constructor", hidden(undefined));
  defineProperty(result, "constructor", hidden(PromiseOf));
  promiseThen(
    promise,
    (answer) => {
      moveClock(answer[0]);
      if (answer.length > 2) reject(completeFailure(failure, door, answer[2], answer[3]));
      else fulfil(resolve, answer.length > 1 ? answer[1] : undefined);
    },
    (thrown) => {
      if (door === "log") resolve(undefined);
      else reject(channelFailure(failure, door, thrown));
    },
  );
  return result;
}

// Resolving reads `then` of an object; data must not become a thenable by what the program put on a prototype.
function fulfil(resolve, value) {
  if (typeof value === "object" && value !== null && !hasOwn(value, "then") && "then" in value) {
    defineProperty(value, "then", hidden(undefined));
    resolve(value);
    deleteProperty(value, "then");
  } else resolve(value);
}

function refuse(door, ref, reason) {
  return call(door, { __proto__: null, ref, refused: reason });
}

// The text of a first argument as it can cross, or undefined for what is no text: an object, a function, NaN.
function textOf(value) {
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return value - value === 0 ? value + 0 : undefined;
  return typeof value === "object" || typeof value === "function" || !isPlainScalar(value) ? undefined : value;
}

function kindName(value) {
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return "a symbol";
  if (typeof value === "bigint") return "a BigInt of more than 4300 digits";
  if (typeof value === "number") return "" + value; // NaN or infinite
  return isArray(value) ? "an array" : "an object";
}

function notText(door, value) {
  return refuse(door, "", door + "() expects text, got " + kindName(value) + ".");
}

function surplus(door, ref, most, count) {
  return refuse(door, ref, door + "() takes at most " + most + " arguments, got " + count + ".");
}

const nameOf = (text) => (text === null ? "" : stringSlice("" + text, 0, REF_UNITS));

// Copies one argument into `message`; gives undefined, or the refusal to send instead.
function pass(message, value, root, ref) {
  const copy = copyOf(value, MOST_TOKENS);
  const { bad, size } = copied;
  const at = message.length;
  if (size > MOST_BYTES) return { __proto__: null, ref, size };
  if (bad) {
    const reason = refusal(copy, root);
    return { __proto__: null, ref, refused: reason === "" ? root + ": not JSON" : reason };
  }
  message[at] = copy;
  return undefined;
}

// Only the options that a door knows are read; what else the object holds is ignored.
function passOptions(message, options, first, second, ref) {
  if (options === undefined || options === null) return undefined;
  let known = options;
  if (typeof options === "object" && !isArray(options)) {
    try {
      const prototype = getPrototypeOf(options);
      if (prototype === ObjectPrototype || prototype === null) {
        known = { __proto__: null };
        readOption(known, options, first);
        readOption(known, options, second);
      }
    } catch {
      known = options; // a trap of a Proxy threw; the copy will say so
    }
  }
  return pass(message, known, "options", ref);
}

function readOption(known, options, name) {
  const descriptor = getOwnPropertyDescriptor(options, name);
  if (descriptor === undefined) return;
  // A getter is left to the copy, which runs it once and tells what it threw.
  if (hasOwn(descriptor, "value")) known[name] = descriptor.value;
  else {
    const get = () => (descriptor.get === undefined ? undefined : ReflectApply(descriptor.get, options, NO_ARGUMENTS));
    defineProperty(known, name, { __proto__: null, get, enumerable: true, configurable: true });
  }
}

// The message of a call: a list that becomes an array once it is complete.
function sent(door, message) {
  const text = message[0];
  if (typeof text === "string" && text.length > MOST_BYTES) {
    return call(door, { __proto__: null, ref: "", size: text.length + 4 });
  }
  return call(door, setPrototypeOf(message, ArrayPrototype));
}

const doors = {
  __proto__: null,
  ai(...given) {
    const text = textOf(given[0]);
    if (text === undefined) return notText("ai", given[0]);
    const ref = nameOf(text);
    if (given.length > 3) return surplus("ai", ref, 3, given.length);
    const message = newList();
    message[0] = text;
    const problem = pass(message, given[1] === undefined ? null : given[1], "input", ref);
    if (problem !== undefined) return call("ai", problem);
    const wrong = passOptions(message, given[2], "schema", "effort", ref);
    return wrong === undefined ? sent("ai", message) : call("ai", wrong);
  },
  tool(...given) {
    const text = textOf(given[0]);
    if (text === undefined) return notText("tool", given[0]);
    const ref = nameOf(text);
    if (given.length > 2) return surplus("tool", ref, 2, given.length);
    const message = newList();
    message[0] = text;
    const problem = pass(message, given[1] === undefined ? null : given[1], "args", ref);
    return problem === undefined ? sent("tool", message) : call("tool", problem);
  },
  ask(...given) {
    const text = textOf(given[0]);
    if (text === undefined) return notText("ask", given[0]);
    const ref = nameOf(text);
    if (given.length > 2) return surplus("ask", ref, 2, given.length);
    const message = newList();
    message[0] = text;
    const wrong = passOptions(message, given[1], "options", "default", ref);
    return wrong === undefined ? sent("ask", message) : call("ask", wrong);
  },
  remember(...given) {
    const text = textOf(given[0]);
    return text === undefined ? notText("remember", given[0]) : sendText("remember", text);
  },
  recall(...given) {
    const text = textOf(given[0]);
    return text === undefined ? notText("recall", given[0]) : sendText("recall", text);
  },
  log(...given) {
    const text = textOf(given[0]);
    if (text === undefined) return notText("log", given[0]);
    return typeof text === "string" && text.length > LOG_UNITS ? logHead(text) : sendText("log", text);
  },
};

function sendText(door, text) {
  const message = newList();
  message[0] = text;
  return sent(door, message);
}

// More than the host keeps of a status, so only the head is sent, and how many UTF-16 units were left out.
const LOG_UNITS = 8192;

function logHead(text) {
  let start = 0;
  while (start < text.length && charCodeAt(text, start) <= 32) start += 1; // the host trims; blanks must not be all it gets
  const message = newList();
  message[0] = stringSlice(text, start, start + LOG_UNITS);
  message[1] = text.length - start > LOG_UNITS ? text.length - start - LOG_UNITS : 0;
  return sent("log", message);
}

function addDoors() {
  const names = ObjectKeys(doors);
  for (let i = 0; i < names.length; i++) fix(names[i], ObjectFreeze(doors[names[i]]));
  fix("DoorError", DoorError);
}

// --- The program's frame ---

// The output as it crosses: without undefined properties. What cannot cross is left in its place, and the channel says
// where. A promise is settled first.
function finish(value) {
  if (typeof value !== "object" || value === null) return value;
  if (!isPromise(value)) return copyOf(value, MOST_OUTPUT_TOKENS);
  return new PromiseOf((resolve, reject) => {
    promiseThen(
      value,
      (settled) => {
        try {
          fulfil(resolve, finish(settled));
        } catch (thrown) {
          reject(thrown);
        }
      },
      reject,
    );
  });
}

function isPromise(value) {
  try {
    for (let at = getPrototypeOf(value), steps = 0; at !== null && steps < 100; at = getPrototypeOf(at), steps++) {
      if (at === promisePrototype) return true;
    }
  } catch {
    // a Proxy that does not let itself be looked at; admission will say so
  }
  return false;
}

replaceAmbient();
addDoors();
onStart((start) => {
  world.start = world.now = start[0];
  world.a = start[1];
  world.b = start[2];
  world.c = start[3];
  world.d = start[4];
  world.input = duplicate(start[5]);
  return start[5];
});

return { jsrun_doors: undefined };
