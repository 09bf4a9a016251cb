// Wire values: admission, encoding, decoding, measuring. No recursion anywhere, so no depth limit.

const limits = {
  __proto__: null,
  maxValueTokens: 1_000_000,
  maxMessageBytes: 16_777_216,
  maxPendingCalls: 128,
  maxLogChars: 65_536,
  maxLogEntries: 100_000,
  maxOutputBytes: 8_388_608,
};

const BIGINT_BOUND = 10n ** 4300n; // the first integer of more digits than the wire holds
const THROWN_TEXT_CHARS = 400; // of what a getter threw, in a refusal
const MARKER_KEYS = 32; // a marker of more keys is not kept
const SHALLOW = 8; // up to this depth looking through the open containers is cheaper than a set of them
const PATH_HEAD = 80; // code points
const PATH_TAIL = 119;
const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

// The wire text of a value, in ASCII; "" if it is refused, and then `refusal` is `PATH: REASON`. With `drop` a property
// that is undefined is left out.
//
// A container being read is {up, source, keys, size, at, dense, kept, piece}: `keys` is null for an array, `at` is the
// slot being read. With `drop` the marker, at `piece`, is written when the keys that were `kept` are known.
function encode(value, root, drop, maxDepth) {
  const maxTokens = limits.maxValueTokens;
  const pieces = newList(); // one of text for each token, but numbers and booleans as they are
  let count = 0;
  let open = null;
  let depth = 0;
  let ancestors = null;
  for (;;) {
    if (count >= maxTokens) return refuseValue(root, open, "more than " + maxTokens + " tokens");
    const type = typeof value;
    if (type === "string") {
      pieces[count++] = JSONStringify(value);
    } else if (type === "number") {
      if (value - value !== 0) return refuseValue(root, open, value + " is not JSON"); // NaN, Infinity, -Infinity
      if (value === 0 && 1 / value < 0) return refuseValue(root, open, "-0 is not JSON");
      pieces[count++] = (value | 0) === value ? value : numberText(value);
    } else if (type === "boolean") {
      pieces[count++] = value;
    } else if (value === null) {
      pieces[count++] = "null";
    } else if (type === "bigint") {
      if (value >= BIGINT_BOUND || value <= -BIGINT_BOUND) {
        return refuseValue(root, open, "integer of more than 4300 digits");
      }
      pieces[count++] = '{"kind":"bigint","digits":"' + value + '"}';
    } else if (type !== "object") {
      return refuseValue(root, open, type + " is not JSON"); // undefined, function, symbol
    } else {
      if (ancestors !== null ? setHas(ancestors, value) : isOpen(open, value)) return refuseValue(root, open, "cycle");
      if (depth >= maxDepth) return refuseValue(root, open, "more than " + maxDepth + " levels");
      let next;
      try {
        next = readContainer(value, maxTokens - count, open);
      } catch (thrown) {
        next = getterFailed(thrown); // a Proxy's trap, or a revoked Proxy
      }
      if (typeof next === "string") return refuseValue(root, open, next);
      if (drop && next.keys !== null) next.kept = newList();
      next.piece = count;
      if (next.keys === null) pieces[count++] = '{"kind":"array","length":' + next.size + "}";
      else pieces[count++] = next.size < maxTokens ? objectMarker(next.keys) : ""; // or refused before its end
      if (next.size > 0) {
        open = next;
        depth += 1;
        if (ancestors !== null) setAdd(ancestors, value);
        else if (depth > SHALLOW) ancestors = setOfOpen(open);
      }
    }
    // The next slot: of the innermost container that has one left.
    for (;;) {
      while (open !== null && ++open.at === open.size) {
        if (open.kept !== null) pieces[open.piece] = objectMarker(open.kept);
        if (ancestors !== null) setDelete(ancestors, open.source);
        open = open.up;
        depth -= 1;
      }
      if (open === null) return "[" + toAscii(arrayJoin(pieces, ",")) + "]";
      const key = open.keys === null ? open.at : open.keys[open.at];
      try {
        if (!open.dense && !hasOwn(open.source, key)) return refuseValue(root, open.up, "sparse array is not JSON");
        value = open.source[key];
      } catch (thrown) {
        return refuseValue(root, open, getterFailed(thrown));
      }
      if (open.kept === null) break;
      if (value !== undefined) {
        open.kept[open.kept.length] = key;
        break;
      }
    }
  }
}

let refusal = ""; // why the last value that was refused was refused

// Objects of one shape follow each other in most lists: the last marker is kept.
const marker = { __proto__: null, keys: newList(), text: '{"kind":"object","keys":[]}' };

function objectMarker(keys) {
  const size = keys.length;
  let i = 0;
  if (marker.keys.length === size) while (i < size && marker.keys[i] === keys[i]) i += 1;
  if (i === size && marker.keys.length === size) return marker.text;
  const names = newList();
  for (i = 0; i < size; i++) names[i] = JSONStringify(keys[i]);
  const text = '{"kind":"object","keys":[' + arrayJoin(names, ",") + "]}";
  if (size <= MARKER_KEYS) {
    marker.keys = keys;
    marker.text = text;
  }
  return text;
}

// A number as the language prints it, with the fewest digits that mean this double. QuickJS prints some powers of two
// with 17 digits where 16 do (all of them with an exponent); the host counts, and takes for this double, the shortest.
const LONG_NUMBER = /^(-?)(\d)\.(\d{15})(\d)(e.*)$/;

function numberText(value) {
  const text = "" + value;
  if (text.length < 21) return text;
  const match = regExpExec(LONG_NUMBER, text);
  if (match === null) return text;
  const below = match[2] + match[3];
  const above = "" + (BigIntFrom(below) + 1n);
  const nearer = match[4] < "5" ? below : above;
  return written(match, nearer, value) ?? written(match, nearer === below ? above : below, value) ?? text;
}

function written(match, digits, value) {
  if (digits.length !== 16) return undefined;
  let end = 16;
  while (end > 2 && charCodeAt(digits, end - 1) === 48) end -= 1; // no zeros at the end
  const text = match[1] + digits[0] + "." + stringSlice(digits, 1, end) + match[5];
  return toNumber(text) === value ? text : undefined;
}

// A copy of a value for trusted code, without the properties that are undefined. Throws an error with the refusal.
function copyValue(value, root, maxDepth) {
  const text = encode(value, root, true, maxDepth);
  if (text === "") throw new ErrorOf(refusal);
  return decode(JSONParse(text));
}

// What an object is on the wire: a container to read, or the reason of its refusal.
function readContainer(source, room, up) {
  const prototype = getPrototypeOf(source);
  if (isArray(source)) {
    if (prototype !== ArrayPrototype) return "class instance is not JSON";
    const size = source.length;
    // Longer than the budget: refused in any case, so its slots are checked one by one until the first reason.
    const dense = size <= room;
    if (dense) {
      const reason = denseReason(ownKeys(source), size);
      if (reason !== "") return reason;
    } else if (!hasOwn(source, 0)) return "sparse array is not JSON";
    return { __proto__: null, up, source, keys: null, size, at: -1, dense, kept: null, piece: 0 };
  }
  if (prototype !== ObjectPrototype && prototype !== null) return instanceReason(source);
  const keys = ownKeys(source);
  if (ObjectKeys(source).length !== keys.length) return hiddenReason(source, keys);
  setPrototypeOf(keys, null);
  return { __proto__: null, up, source, keys, size: keys.length, at: -1, dense: true, kept: null, piece: 0 };
}

// Own keys come as indices in order, then names, then symbols. If the key at `size - 1` is the last index, all are there.
function denseReason(keys, size) {
  if (keys.length === size + 1 && keys[size] === "length" && (size === 0 || keys[size - 1] === "" + (size - 1))) {
    return "";
  }
  if (size > 0 && (keys.length <= size || keys[size - 1] !== "" + (size - 1))) return "sparse array is not JSON";
  for (let i = size; i < keys.length; i++) {
    if (typeof keys[i] === "symbol") return "symbol key";
    if (keys[i] !== "length") return "extra property " + JSONStringify(keys[i]) + " on an array";
  }
  return "class instance is not JSON"; // only a Proxy gets here
}

function hiddenReason(source, keys) {
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] === "symbol") return "symbol key";
    const descriptor = getOwnPropertyDescriptor(source, keys[i]);
    if (descriptor === undefined || !descriptor.enumerable) return "hidden property " + JSONStringify(keys[i]);
  }
  return "class instance is not JSON"; // only a Proxy gets here
}

function instanceReason(value) {
  const kind = kindOf(value);
  if (kind === undefined) return "class instance is not JSON";
  if (kind === "Promise") return "Promise is not JSON; await it first";
  const boxed = kind === "Number" || kind === "String" || kind === "Boolean" || kind === "Symbol" || kind === "BigInt";
  return (boxed ? "boxed primitive" : kind) + " is not JSON";
}

function getterFailed(thrown) {
  if (isOutOfMemory(thrown)) throw thrown;
  const message = isObject(thrown) && isError(thrown) ? readText(thrown, "message") : undefined;
  const text = typeof message === "string" && message !== "" ? message : describe(thrown);
  return "getter failed: " + cutText(text, THROWN_TEXT_CHARS);
}

function isOpen(open, value) {
  for (; open !== null; open = open.up) if (open.source === value) return true;
  return false;
}

function setOfOpen(open) {
  const all = new SetOf();
  for (; open !== null; open = open.up) setAdd(all, open.source);
  return all;
}

// `root`, then the slot being read in each open container, outermost first.
function refuseValue(root, open, reason) {
  const slots = newList();
  for (let container = open; container !== null; container = container.up) slots[slots.length] = container;
  let path = root;
  for (let i = slots.length - 1; i >= 0; i--) {
    const { keys, at } = slots[i];
    if (keys === null) path += "[" + at + "]";
    else if (regExpExec(IDENTIFIER, keys[at]) !== null) path += "." + keys[at];
    else path += "[" + JSONStringify(keys[at]) + "]";
  }
  refusal = cutPath(path) + ": " + reason;
  return "";
}

function cutPath(path) {
  const most = PATH_HEAD + 1 + PATH_TAIL;
  if (path.length <= most || (path.length <= 2 * most && codePoints(path) <= most)) return path;
  return stringSlice(path, 0, move(path, 0, PATH_HEAD)) + "…" + stringSlice(path, move(path, path.length, -PATH_TAIL));
}

const plainSize = (text) => text.length + 2;

// The bytes of a value in compact JSON, from its wire text: brackets, commas and colons are counted with their container.
// If the text shows no escape, a string is as long as it looks.
function jsonSize(text) {
  const tokens = JSONParse(text);
  const sizeOf = stringIndexOf(text, "\\", 0) < 0 ? plainSize : stringSize;
  let size = 0;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (typeof token === "string") size += sizeOf(token);
    else if (typeof token === "number") size += numberText(token).length;
    else if (typeof token !== "object" || token === null) size += ("" + token).length;
    else if (token.kind === "bigint") size += token.digits.length;
    else if (token.kind === "array") size += token.length === 0 ? 2 : token.length + 1;
    else {
      const { keys } = token;
      size += keys.length === 0 ? 2 : keys.length + 1;
      for (let k = 0; k < keys.length; k++) size += sizeOf(keys[k]) + 1;
    }
  }
  return size;
}

// The value of a parsed wire array; the host is trusted to send a valid one. Read from its end, a pre-order list needs no
// bookkeeping: when a marker comes up, its values are the last ones seen.
function decode(tokens) {
  const seen = newList();
  let top = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    const token = tokens[i];
    if (typeof token !== "object" || token === null) seen[top++] = token;
    else if (token.kind === "object") {
      const { keys } = token;
      const target = {};
      for (let k = 0; k < keys.length; k++) {
        const key = keys[k];
        // What Object.prototype holds under this name, `__proto__` or a setter of the program, must not be asked.
        if (key in ObjectPrototype) defineProperty(target, key, dataDescriptor(seen[--top], true));
        else target[key] = seen[--top];
      }
      seen[top++] = target;
    } else if (token.kind === "array") {
      const size = token.length;
      const target = newArray(size);
      for (let k = 0; k < size; k++) target[k] = seen[--top];
      seen[top++] = target;
    } else seen[top++] = BigIntFrom(token.digits);
  }
  return seen[0];
}

