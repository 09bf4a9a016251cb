// The guest half of the doors. `ptc` runs this text as `setup`: in the image, before it sees any program.
//
// It makes the six doors and `DoorError` fixed properties of the global object, replaces clock and randomness by
// recorded ones, and checks what the program passes out. The host repeats every check: what is decided here is only
// what cannot cross the channel, and such a call is still made, as a refusal, so that it is booked and journaled.
//
// A program may replace or delete any built-in, so everything is captured first: no method is looked up on a value, no
// array is spread or iterated, objects and lists of ours have no prototype.
//
// A door call sends a list of its arguments, or, for arguments that cannot cross, {ref, refused}. The answer is [now],
// [now, value] or [now, null, ref, message]: the clock in milliseconds, then what the door gives or why it failed; [now]
// alone gives undefined.

const { namespaces, copy, onStart, watch, dropUndefined } = host;
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
const PromisePrototype = Promise.prototype;
const ownThen = Promise.prototype.then;
const promiseThen = uncurry(ownThen);
const ErrorOf = Error;
const ErrorPrototype = Error.prototype;
const DateOf = Date;
const dateToString = uncurry(Date.prototype.toString);

function newList() {
  return setPrototypeOf([], null);
}

const NO_ARGUMENTS = ObjectFreeze(newList());

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
  return ReflectConstruct(DateOf, given.length === 0 ? [world.now] : given, new.target);
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

const DoorErrorPrototype = DoorError.prototype;

// In an async program it is made when the call is made, so its stack, hence its position, is that of the call. Made as
// a plain error: V8 leaves out of a stack what lies above the constructor named as new.target.
function newFailure() {
  return setPrototypeOf(new ErrorOf(), DoorErrorPrototype);
}

function completeFailure(failure, door, ref, message) {
  describeFailure(failure, door, ref);
  defineProperty(failure, "message", hidden(message));
  return failure;
}

// --- Calling the host ---

function call(door, message) {
  let answer;
  try {
    answer = hostDoors[door](message);
  } catch (thrown) {
    const reason = channelRefusal(thrown, message);
    if (reason === "") throw thrown; // the engine's own: no stack or no memory left
    return refuse(door, refOf(message), reason);
  }
  if (!isArray(answer)) return later(door, message, answer);
  moveClock(answer[0]);
  if (answer.length > 2) throw completeFailure(newFailure(), door, answer[2], answer[3]);
  return answer.length > 1 ? answer[1] : undefined;
}

function later(door, message, promise) {
  const failure = newFailure();
  let resolve;
  let reject;
  const result = new PromiseOf((onDone, onFailed) => {
    resolve = onDone;
    reject = onFailed;
  });
  reject = watch(result, reject);
  const take = (answer) => {
    moveClock(answer[0]);
    if (answer.length > 2) reject(completeFailure(failure, door, answer[2], answer[3]));
    else fulfil(resolve, answer.length > 1 ? answer[1] : undefined);
  };
  const refused = (thrown) => {
    const reason = channelRefusal(thrown, message);
    if (reason === "") reject(thrown);
    else listen(hostDoors[door]({ __proto__: null, ref: refOf(message), refused: reason }), take, reject);
  };
  listen(promise, take, refused);
  return result;
}

function listen(promise, take, failed) {
  promise.constructor; // whoever asks for it handles the promise
  // Else `then` asks Promise.prototype what the program has made of its constructor.
  defineProperty(promise, "constructor", hidden(undefined));
  promiseThen(promise, take, failed);
}

// In a run that is fed from a record, the host answers the pulse after other answers; it comes back when the program has
// taken those, and has made every call that follows from them.
function pulse() {
  listen(hostDoors.pulse(null), comeBack, forget);
}

const comeBack = (again) => {
  if (again) pulse();
};
const forget = () => {};

// Resolving reads `then` of an object; data must not become a thenable by what the program put on a prototype.
function fulfil(resolve, value) {
  if (typeof value === "object" && value !== null && !hasOwn(value, "then") && "then" in value) {
    defineProperty(value, "then", hidden(undefined));
    resolve(value);
    deleteProperty(value, "then");
  } else resolve(value);
}

// Why the channel did not take a message: it is larger than a frame. "" if it is something else, or a refusal itself.
function channelRefusal(thrown, message) {
  if (!isArray(message) || getPrototypeOf(thrown) !== ErrorPrototype) return "";
  const descriptor = getOwnPropertyDescriptor(thrown, "message");
  return descriptor === undefined ? "" : descriptor.value;
}

function refOf(message) {
  const text = message[0];
  return text === null ? "" : stringSlice("" + text, 0, REF_UNITS);
}

const REF_UNITS = 4096; // of the ref of a refused call

// --- Arguments ---

const MAX_LEVELS = 512;

// A refusal is thrown inside this file and sent by the door that catches it.
function refusal(ref, reason) {
  return { __proto__: null, ref, reason };
}

function refuse(door, ref, reason) {
  return call(door, { __proto__: null, ref, refused: reason });
}

// One argument as it crosses, a plain copy without undefined properties.
function crossing(value, root, ref) {
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value;
  if (value === undefined) return null;
  try {
    return copy(value, root, MAX_LEVELS);
  } catch (thrown) {
    if (getPrototypeOf(thrown) !== ErrorPrototype) throw thrown; // no stack or no memory left
    throw refusal(ref, getOwnPropertyDescriptor(thrown, "message").value);
  }
}

// Only the options that a door knows are read; what else the object holds is ignored.
function knownOptions(options, first, second, ref) {
  if (typeof options !== "object" || options === null || isArray(options)) return crossing(options, "options", ref);
  let known = options;
  try {
    const prototype = getPrototypeOf(options);
    if (prototype === ObjectPrototype || prototype === null) {
      known = { __proto__: null };
      passOption(known, options, first);
      passOption(known, options, second);
    }
  } catch {
    known = options; // a trap of a Proxy threw; copying will say so
  }
  return crossing(known, "options", ref);
}

function passOption(known, options, name) {
  const descriptor = getOwnPropertyDescriptor(options, name);
  if (descriptor === undefined) return;
  if (hasOwn(descriptor, "value")) known[name] = descriptor.value;
  else {
    // A getter is left to the copying, which runs it once and tells what it threw.
    const get = () => (descriptor.get === undefined ? undefined : ReflectApply(descriptor.get, options, NO_ARGUMENTS));
    defineProperty(known, name, { __proto__: null, get, enumerable: true, configurable: true });
  }
}

// The text of a first argument: any primitive that has one; nothing is null.
function textOf(door, value) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "undefined":
      return null;
    case "number":
      if (value - value === 0) return value + 0; // finite, and not -0
      break;
    case "bigint":
      return crossing(value, "args", "");
  }
  if (value === null) return null;
  throw refusal("", door + "() expects text, got " + kindOf(value) + ".");
}

function kindOf(value) {
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return "a symbol";
  if (typeof value === "number") return "" + value; // NaN or infinite
  return isArray(value) ? "an array" : "an object";
}

function checkCount(door, ref, most, count) {
  if (count > most) throw refusal(ref, door + "() takes at most " + most + " arguments, got " + count + ".");
}

const nameOf = (text) => (text === null ? "" : stringSlice("" + text, 0, REF_UNITS));

// More than the host keeps of a status, so only the head is sent, and how many UTF-16 units were left out.
const STATUS_UNITS = 8192;

function statusMessage(text) {
  if (typeof text !== "string" || text.length <= STATUS_UNITS) return [text];
  let start = 0;
  while (start < text.length && charCodeAt(text, start) <= 32) start += 1; // the host trims; blanks must not be all it gets
  const rest = text.length - start - STATUS_UNITS;
  return [stringSlice(text, start, start + STATUS_UNITS), rest > 0 ? rest : 0];
}

// What each door makes of its arguments; throws a refusal.
const messages = {
  __proto__: null,
  ai(given) {
    const text = textOf("ai", given[0]);
    const ref = nameOf(text);
    checkCount("ai", ref, 3, given.length);
    return [text, crossing(given[1], "input", ref), knownOptions(given[2], "schema", "effort", ref)];
  },
  tool(given) {
    const text = textOf("tool", given[0]);
    const ref = nameOf(text);
    checkCount("tool", ref, 2, given.length);
    return [text, crossing(given[1], "args", ref)];
  },
  ask(given) {
    const text = textOf("ask", given[0]);
    const ref = nameOf(text);
    checkCount("ask", ref, 2, given.length);
    return [text, knownOptions(given[1], "options", "default", ref)];
  },
  remember: (given) => [textOf("remember", given[0])],
  recall: (given) => [textOf("recall", given[0])],
  log: (given) => statusMessage(textOf("log", given[0])),
};

function makeDoor(door) {
  const read = messages[door];
  // A method: it has a name and cannot be constructed.
  const made = {
    [door](...given) {
      let message;
      try {
        message = read(given);
      } catch (thrown) {
        if (getPrototypeOf(thrown) !== null) throw thrown; // none of ours
        return refuse(door, thrown.ref, thrown.reason);
      }
      return call(door, message);
    },
  };
  return ObjectFreeze(made[door]);
}

function addDoors() {
  const names = ObjectKeys(messages);
  for (let i = 0; i < names.length; i++) fix(names[i], makeDoor(names[i]));
  fix("DoorError", DoorError);
}

// --- The frame around the program ---

// A copy of the input: the global variable and the argument of the entry share nothing. Made before the program runs.
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
    const copied = duplicate(value[keys[i]]);
    if (keys[i] === "__proto__") defineProperty(object, keys[i], shown(copied));
    else object[keys[i]] = copied;
  }
  return object;
}

// What `program.py` puts around the text talks to this: it assigns `value`, calls `entry`, and returns what either gives.
const frame = {
  __proto__: null,
  value: undefined,
  entry(held) {
    return settling(typeof held === "function" ? ReflectApply(held, undefined, [world.input]) : frame.value);
  },
};

// An output that is a promise is settled before the run is judged. Returned from an async body it is asked for `then`,
// which must not be what the program has made of it, so it is given as a promise that has its own.
function settling(value) {
  if (typeof value !== "object" || value === null || !isPromise(value)) return value;
  const own = new PromiseOf((resolve, reject) => {
    // As in `listen`, but the promise is the program's: it must not show afterwards.
    const lent = !hasOwn(value, "constructor") && defineProperty(value, "constructor", hidden(undefined));
    promiseThen(value, (settled) => fulfil(resolve, settled), reject);
    if (lent) deleteProperty(value, "constructor");
  });
  defineProperty(own, "then", hidden(ownThen));
  defineProperty(own, "constructor", hidden(undefined));
  return own;
}

function isPromise(value) {
  try {
    for (let at = getPrototypeOf(value), steps = 0; at !== null && steps < 100; at = getPrototypeOf(at), steps++) {
      if (at === PromisePrototype) return true;
    }
  } catch {
    // a Proxy that does not let itself be looked at; admission will say so
  }
  return false;
}

replaceAmbient();
addDoors();
dropUndefined();
onStart((start) => {
  world.start = world.now = start[0];
  world.a = start[1];
  world.b = start[2];
  world.c = start[3];
  world.d = start[4];
  world.input = duplicate(start[5]);
  if (start[6]) pulse();
  return start[5];
});

return { jsrun_doors: undefined, $jsrun: frame };
