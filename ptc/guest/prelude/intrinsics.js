// Intrinsics: every built-in the prelude uses, captured before any other code runs.
//
// A program may replace or delete any global and any property of any built-in prototype, so after this part nothing
// here looks a method up. The rules that follow from it, for every part:
//   - a method is called through its captured, uncurried function: `stringSlice(text, 0, 4)`;
//   - no `for…of`, no spread of arrays, no array destructuring, no `instanceof`: they look up symbols;
//   - no template literals: QuickJS makes them a call of String.prototype.concat;
//   - JSON.stringify gets strings only: of an object it asks `toJSON`, and in QuickJS an index of Array.prototype;
//   - an object is read only where the property is its own, or its prototype is null;
//   - a list is an array without prototype (`newList()`), so assigning an index cannot reach a setter;
//   - an array for the program is made with all its elements, so that storing one overwrites an own property.

const ReflectApply = Reflect.apply;
const functionCall = Function.prototype.call;
const functionBind = Function.prototype.bind;
const uncurry = (method) => ReflectApply(functionBind, functionCall, [method]);
const getterOf = (holder, key) => uncurry(Object.getOwnPropertyDescriptor(holder, key).get);

const ObjectPrototype = Object.prototype;
const ObjectFreeze = Object.freeze;
const ObjectKeys = Object.keys;
const getPrototypeOf = Object.getPrototypeOf;
const setPrototypeOf = Object.setPrototypeOf;
const getOwnPropertyDescriptor = Object.getOwnPropertyDescriptor;
const defineProperty = Reflect.defineProperty;
const deleteProperty = Reflect.deleteProperty;
const ownKeys = Reflect.ownKeys;
const hasOwn = Object.hasOwn;

const ArrayPrototype = Array.prototype;
const isArray = Array.isArray;
const arrayJoin = uncurry(Array.prototype.join);
const JSONParse = JSON.parse;
const JSONStringify = JSON.stringify;
const BigIntFrom = BigInt;
const toNumber = Number;
const random = Math.random;
const floor = Math.floor;
const evaluateGlobally = eval; // called under this name it is an indirect eval: global scope, no access to ours

const charCodeAt = uncurry(String.prototype.charCodeAt);
const stringSlice = uncurry(String.prototype.slice);
const stringIndexOf = uncurry(String.prototype.indexOf);
const stringLastIndexOf = uncurry(String.prototype.lastIndexOf);
const stringRepeat = uncurry(String.prototype.repeat);
const symbolToString = uncurry(Symbol.prototype.toString);
const regExpExec = uncurry(RegExp.prototype.exec);

const SetOf = Set;
const setAdd = uncurry(Set.prototype.add);
const setHas = uncurry(Set.prototype.has);
const setDelete = uncurry(Set.prototype.delete);
const setSize = getterOf(Set.prototype, "size");
const setValues = uncurry(Set.prototype.values);
const setNext = uncurry(getPrototypeOf(new Set().values()).next);
const MapOf = Map;
const mapGet = uncurry(Map.prototype.get);
const mapSet = uncurry(Map.prototype.set);
const mapDelete = uncurry(Map.prototype.delete);
const mapSize = getterOf(Map.prototype, "size");
const mapEntries = uncurry(Map.prototype.entries);
const mapValues = uncurry(Map.prototype.values);
const mapNext = uncurry(getPrototypeOf(new Map().entries()).next);
const weakMapGet = uncurry(WeakMap.prototype.get);
const weakMapSet = uncurry(WeakMap.prototype.set);
const weakMapHas = uncurry(WeakMap.prototype.has);
const weakSetHas = uncurry(WeakSet.prototype.has);

const PromiseOf = Promise;
const PromisePrototype = Promise.prototype;
const promiseThen = uncurry(Promise.prototype.then);
const TypeErrorOf = TypeError;
const ErrorOf = Error;
const ErrorPrototype = Error.prototype;
const RangeErrorPrototype = RangeError.prototype;
// QuickJS throws its own kind of error for what has no place in the language, running out of memory among it.
const InternalErrorPrototype = typeof InternalError === "function" ? InternalError.prototype : undefined;

const dateGetTime = uncurry(Date.prototype.getTime);
const dateToISOString = uncurry(Date.prototype.toISOString);
const dateNow = Date.now;
const engineNow = typeof performance === "object" ? uncurry(performance.now) : undefined;
const enginePerformance = typeof performance === "object" ? performance : undefined;

const typedArrayPrototype = getPrototypeOf(Int8Array.prototype);
const typedArrayName = getterOf(typedArrayPrototype, Symbol.toStringTag);
const typedArrayLength = getterOf(typedArrayPrototype, "length");
const arrayBufferByteLength = getterOf(ArrayBuffer.prototype, "byteLength");
const dataViewBuffer = getterOf(DataView.prototype, "buffer");
const numberValueOf = uncurry(Number.prototype.valueOf);
const stringValueOf = uncurry(String.prototype.valueOf);
const booleanValueOf = uncurry(Boolean.prototype.valueOf);
const symbolValueOf = uncurry(Symbol.prototype.valueOf);
const bigIntValueOf = uncurry(BigInt.prototype.valueOf);

const regExpSource = getterOf(RegExp.prototype, "source");
const REGEXP_FLAGS = [
  ["d", "hasIndices"], ["g", "global"], ["i", "ignoreCase"], ["m", "multiline"],
  ["s", "dotAll"], ["u", "unicode"], ["v", "unicodeSets"], ["y", "sticky"],
].map(([letter, name]) => ({ __proto__: null, letter, isSet: getterOf(RegExp.prototype, name) }));
setPrototypeOf(REGEXP_FLAGS, null);

// The host's side: functions the engine adapter has put on the global object, taken away from there. All take one text.
const takeGlobal = (name) => {
  const taken = globalThis[name];
  delete globalThis[name];
  return taken;
};
// A long concatenation is a tree inside QuickJS, which its binding cannot convert; slicing makes it one piece.
const onePiece = (text) => stringSlice(text, 0);
const flatten = (send) => (text) => send(onePiece(text));
const hostSend = flatten(takeGlobal("__ptc_send")); // writes one frame
const hostExchange = flatten(takeGlobal("__ptc_exchange")); // writes one frame, gives the next one (sync form only)
const hostExit = takeGlobal("__ptc_exit"); // ends the process with a status
const hostStart = takeGlobal("__ptc_start"); // the program begins: milliseconds to its deadline or ""; optional
const hostCpu = takeGlobal("__ptc_cpu"); // gives the CPU milliseconds since then; optional

function newList() {
  const list = [];
  setPrototypeOf(list, null);
  return list;
}

// An ordinary array of `size` own elements, to be overwritten one by one.
function newArray(size) {
  if (size === 0) return [];
  if (size === 1) return [0];
  if (size === 2) return [0, 0];
  if (size === 3) return [0, 0, 0];
  if (size === 4) return [0, 0, 0, 0];
  return JSONParse("[" + stringRepeat("0,", size - 1) + "0]");
}

function dataDescriptor(value, enumerable) {
  return { __proto__: null, value, writable: true, enumerable, configurable: true };
}

// The value of an own data property; undefined for an accessor or no such property. Runs no getter.
function ownData(holder, key) {
  const descriptor = getOwnPropertyDescriptor(holder, key);
  return descriptor !== undefined && hasOwn(descriptor, "value") ? descriptor.value : undefined;
}

// The same, looked for along the prototypes. Bounded, because a Proxy can pretend to any number of them.
function inheritedData(holder, key) {
  for (let steps = 0; holder !== null && steps < 100; steps++) {
    const descriptor = getOwnPropertyDescriptor(holder, key);
    if (descriptor !== undefined) return hasOwn(descriptor, "value") ? descriptor.value : undefined;
    holder = getPrototypeOf(holder);
  }
  return undefined;
}

function hasPrototype(value, wanted) {
  for (let steps = 0; steps < 100; steps++) {
    value = getPrototypeOf(value);
    if (value === wanted) return true;
    if (value === null) return false;
  }
  return false;
}

const isError = typeof Error.isError === "function" ? Error.isError : (value) => hasPrototype(value, ErrorPrototype);

function isObject(value) {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

// The engine's own error for a refused allocation: QuickJS has a kind of its own for it, V8 has one text for it. Nothing
// here runs code of the program: a Proxy is no error.
function isOutOfMemory(thrown) {
  if (!isObject(thrown) || !isError(thrown)) return false;
  const message = ownData(thrown, "message");
  return InternalErrorPrototype !== undefined
    ? message === "out of memory" && getPrototypeOf(thrown) === InternalErrorPrototype
    : message === "Array buffer allocation failed" && getPrototypeOf(thrown) === RangeErrorPrototype;
}

// Built-in kinds, told apart by their internal slots: a probe throws for an object of another kind. The value is never
// asked for its name.
const KINDS = [
  ["Date", Date, dateGetTime],
  ["Map", Map, mapSize],
  ["Set", Set, setSize],
  ["WeakMap", WeakMap, (value) => weakMapHas(value, ObjectPrototype)],
  ["WeakSet", WeakSet, (value) => weakSetHas(value, ObjectPrototype)],
  ["RegExp", RegExp, regExpSource],
  ["ArrayBuffer", ArrayBuffer, arrayBufferByteLength],
  ["DataView", DataView, dataViewBuffer],
  ["Number", Number, numberValueOf],
  ["String", String, stringValueOf],
  ["Boolean", Boolean, booleanValueOf],
  ["Symbol", Symbol, symbolValueOf],
  ["BigInt", BigInt, bigIntValueOf],
  ["Promise", Promise, undefined], // has no slot that can be read; its prototype tells
].map(([name, maker, probe]) => ({ __proto__: null, name, prototype: maker.prototype, probe }));
const KIND_COUNT = KINDS.length;
const kindByPrototype = new Map();
for (let i = 0; i < KIND_COUNT; i++) kindByPrototype.set(KINDS[i].prototype, KINDS[i]);
setPrototypeOf(KINDS, null);

function isKind(kind, value) {
  if (kind.probe === undefined) return hasPrototype(value, kind.prototype);
  try {
    kind.probe(value);
    return true;
  } catch {
    return false;
  }
}

// The name of the built-in kind of an object that still has its kind's prototype; undefined for any other object.
function usualKind(value) {
  if (isError(value)) return "Error";
  const view = typedArrayName(value);
  if (view !== undefined) return view;
  let prototype = getPrototypeOf(value);
  for (let steps = 0; prototype !== null && prototype !== ObjectPrototype && steps < 100; steps++) {
    const kind = mapGet(kindByPrototype, prototype);
    if (kind !== undefined && isKind(kind, value)) return kind.name;
    prototype = getPrototypeOf(prototype);
  }
  return undefined;
}

// The same whatever prototype the object has been given. Slow: every probe that fails makes the engine throw.
function kindOf(value) {
  const usual = usualKind(value);
  if (usual !== undefined) return usual;
  for (let i = 0; i < KIND_COUNT; i++) if (isKind(KINDS[i], value)) return KINDS[i].name;
  return undefined;
}

