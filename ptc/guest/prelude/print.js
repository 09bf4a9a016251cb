// Printing: values as the console shows them, errors as an outcome tells them. The console runs no getter; only the
// traps of a Proxy cannot be avoided.

const PRINT_DEPTH = 4;
const PRINT_ITEMS = 100;
const PRINT_STRING_CHARS = 10_000;

// One entry: strings raw, everything else as source-like text.
function printEntry(args) {
  const state = { __proto__: null, room: limits.maxLogChars };
  let text = "";
  for (let i = 0; i < args.length; i++) {
    if (i > 0) text += " ";
    text += typeof args[i] === "string" ? args[i] : printSafely(args[i], state);
  }
  return text;
}

function printSafely(value, state) {
  try {
    return print(value, 0, null, state);
  } catch (thrown) {
    if (isOutOfMemory(thrown)) throw thrown;
    return "[unprintable]";
  }
}

// `state.room` is what is left of an entry; when it is used up, containers end early, so an entry is always bounded.
function print(value, depth, up, state) {
  const before = state.room; // what the parts of a container take is part of its own text
  const text = isObject(value) ? printObject(value, depth, up, state) : printPrimitive(value);
  state.room = before - text.length;
  return text;
}

function printPrimitive(value) {
  switch (typeof value) {
    case "string":
      return JSONStringify(cutText(value, PRINT_STRING_CHARS));
    case "number":
      return value === 0 && 1 / value < 0 ? "-0" : "" + value;
    case "bigint":
      return value + "n";
    case "symbol":
      return symbolToString(value);
    default:
      return "" + value; // undefined, null, true, false
  }
}

function printObject(value, depth, up, state) {
  if (typeof value === "function") {
    const name = ownData(value, "name");
    return typeof name === "string" && name !== "" ? "[Function " + cutText(name, FRAME_NAME_CHARS) + "]" : "[Function]";
  }
  for (let outer = up; outer !== null; outer = outer.up) if (outer.value === value) return "[Circular]";
  const here = { __proto__: null, value, up };
  if (isArray(value)) return printArray(value, depth, here, state);
  const kind = usualKind(value);
  switch (kind) {
    case "Error":
      return printError(value);
    case "Date": {
      const time = dateGetTime(value);
      return time === time ? dateToISOString(value) : "Invalid Date";
    }
    case "RegExp":
      return printRegExp(value);
    case "Map":
    case "Set":
      return printCollection(value, kind, depth, here, state);
    case "ArrayBuffer":
      return "ArrayBuffer(" + arrayBufferByteLength(value) + ")";
    case "Number":
      return "[Number " + print(numberValueOf(value), depth, up, state) + "]";
    case "String":
      return "[String " + print(stringValueOf(value), depth, up, state) + "]";
    case "Boolean":
      return "[Boolean " + booleanValueOf(value) + "]";
    case "Symbol":
      return "[Symbol " + symbolToString(symbolValueOf(value)) + "]";
    case "BigInt":
      return "[BigInt " + bigIntValueOf(value) + "n]";
    case "WeakMap":
    case "WeakSet":
    case "DataView":
    case "Promise":
      return kind + " {}";
    case undefined:
      return printProperties(value, depth, here, state);
    default:
      return printView(value, kind, depth, here, state);
  }
}

const more = (count) => "… " + count + " more";

function printArray(value, depth, here, state) {
  if (depth >= PRINT_DEPTH) return "[Array]";
  const length = value.length;
  const prototype = getPrototypeOf(value);
  let text = prototype === ArrayPrototype ? "[" : className(prototype) + "(" + length + ") [";
  for (let i = 0; i < length; i++) {
    if (i > 0) text += ", ";
    if (i === PRINT_ITEMS || state.room < 0) return text + more(length - i) + "]";
    text += printSlot(value, i, depth, here, state);
  }
  return text + "]";
}

function printView(value, kind, depth, here, state) {
  if (depth >= PRINT_DEPTH) return "[" + kind + "]";
  const length = typedArrayLength(value);
  let text = kind + "(" + length + ") [";
  for (let i = 0; i < length; i++) {
    if (i > 0) text += ", ";
    if (i === PRINT_ITEMS || state.room < 0) return text + more(length - i) + "]";
    text += print(value[i], depth + 1, here, state);
  }
  return text + "]";
}

function printCollection(value, kind, depth, here, state) {
  if (depth >= PRINT_DEPTH) return "[" + kind + "]";
  const isMap = kind === "Map";
  const size = isMap ? mapSize(value) : setSize(value);
  const items = isMap ? mapEntries(value) : setValues(value);
  const prototype = getPrototypeOf(value);
  const name = mapGet(kindByPrototype, prototype) !== undefined ? kind : className(prototype);
  let text = name + "(" + size + ") {";
  for (let i = 0; i < size; i++) {
    if (i > 0) text += ", ";
    if (i === PRINT_ITEMS || state.room < 0) return text + more(size - i) + "}";
    const item = (isMap ? mapNext(items) : setNext(items)).value;
    if (isMap) text += print(item[0], depth + 1, here, state) + " => " + print(item[1], depth + 1, here, state);
    else text += print(item, depth + 1, here, state);
  }
  return text + "}";
}

function printProperties(value, depth, here, state) {
  const prototype = getPrototypeOf(value);
  const name = prototype === null || prototype === ObjectPrototype ? "" : className(prototype);
  if (depth >= PRINT_DEPTH) return "[" + (name === "" ? "Object" : name) + "]";
  const keys = visibleKeys(value);
  let text = (name === "" ? "" : name + " ") + "{";
  for (let i = 0; i < keys.length; i++) {
    if (i > 0) text += ", ";
    if (i === PRINT_ITEMS || state.room < 0) return text + more(keys.length - i) + "}";
    text += printKey(keys[i]) + ": " + printSlot(value, keys[i], depth, here, state);
  }
  return text + "}";
}

// Own enumerable keys: names, then symbols.
function visibleKeys(value) {
  const names = ObjectKeys(value);
  const keys = ownKeys(value);
  if (keys.length === names.length) return names;
  setPrototypeOf(names, null);
  for (let i = keys.length - 1, first = names.length; i >= 0 && typeof keys[i] === "symbol"; i--) {
    const descriptor = getOwnPropertyDescriptor(value, keys[i]);
    if (descriptor !== undefined && descriptor.enumerable) names[first++] = keys[i];
  }
  return names;
}

function printKey(key) {
  if (typeof key === "symbol") return "[" + symbolToString(key) + "]";
  return regExpExec(IDENTIFIER, key) !== null ? key : JSONStringify(cutText(key, PRINT_STRING_CHARS));
}

function printSlot(holder, key, depth, here, state) {
  const descriptor = getOwnPropertyDescriptor(holder, key);
  if (descriptor === undefined) return "empty";
  if (hasOwn(descriptor, "value")) return print(descriptor.value, depth + 1, here, state);
  return descriptor.get !== undefined ? "[Getter]" : "[Setter]";
}

// The name of the nearest constructor along the prototypes, read without running a getter.
function className(prototype) {
  for (let steps = 0; prototype !== null && steps < 100; steps++) {
    const maker = ownData(prototype, "constructor");
    const name = typeof maker === "function" ? ownData(maker, "name") : undefined;
    if (typeof name === "string" && name !== "") return cutText(name, FRAME_NAME_CHARS);
    prototype = getPrototypeOf(prototype);
  }
  return "Object";
}

function printRegExp(value) {
  let flags = "";
  for (let i = 0; i < REGEXP_FLAGS.length; i++) if (REGEXP_FLAGS[i].isSet(value)) flags += REGEXP_FLAGS[i].letter;
  return cutText("/" + regExpSource(value) + "/" + flags, PRINT_STRING_CHARS);
}

function errorText(name, message) {
  const shownName = typeof name === "string" && name !== "" ? cutText(name, FRAME_NAME_CHARS) : "Error";
  return typeof message === "string" && message !== "" ? shownName + ": " + message : shownName;
}

function printError(error) {
  const text = errorText(inheritedData(error, "name"), inheritedData(error, "message"));
  const frames = framesText(programFrames(error));
  return frames === "" ? text : text + "\n" + frames;
}

// What was thrown, for an outcome: an error's name and message (an accessor of the program is asked, once and guarded),
// anything else as the console prints it.
function describe(thrown) {
  if (typeof thrown === "string") return thrown;
  if (!isObject(thrown) || !isError(thrown)) {
    return printSafely(thrown, { __proto__: null, room: limits.maxLogChars });
  }
  return errorText(readText(thrown, "name"), readText(thrown, "message"));
}

function readText(error, key) {
  try {
    return error[key];
  } catch (thrown) {
    if (isOutOfMemory(thrown)) throw thrown;
    return undefined;
  }
}

