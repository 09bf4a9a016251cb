// Text: ASCII JSON, sizes in UTF-8, cuts. All sizes are counted without building the text they measure.

const HEX = newList();
for (let i = 0; i < 256; i++) HEX[i] = "0123456789abcdef"[i >> 4] + "0123456789abcdef"[i & 15];

// Each finds the character that ends a run. Matching the run itself would cost the engine 20 bytes of stack a character.
const ASCII_RUN = /[^\x00-\x7f]/g;
const ONE_BYTE_RUN = /[^ !#-\[\]-\x7f]/g; // what JSON writes as one byte
const THREE_BYTE_RUN = /[^\u0800-\ud7ff\ue000-\uffff]/g; // no surrogates

function runEnd(run, text, from) {
  run.lastIndex = from;
  return regExpExec(run, text) === null ? text.length : run.lastIndex - 1;
}

// The same JSON text with every character above ASCII written as an escape.
function toAscii(json) {
  const length = json.length;
  let at = runEnd(ASCII_RUN, json, 0);
  if (at === length) return json;
  let out = stringSlice(json, 0, at);
  while (at < length) {
    const code = charCodeAt(json, at);
    if (code < 0x80) {
      const end = runEnd(ASCII_RUN, json, at);
      out += stringSlice(json, at, end);
      at = end;
    } else {
      out += "\\u" + HEX[code >> 8] + HEX[code & 255];
      at += 1;
    }
  }
  return out;
}

// A string as ASCII JSON.
function quote(text) {
  return toAscii(JSONStringify(text));
}

const isHighSurrogate = (code) => code >= 0xd800 && code <= 0xdbff;
const isLowSurrogate = (code) => code >= 0xdc00 && code <= 0xdfff;

// The bytes of a string in compact JSON written as UTF-8, quotes included.
function stringSize(text) {
  const length = text.length;
  let at = runEnd(ONE_BYTE_RUN, text, 0);
  let size = at + 2;
  while (at < length) {
    const code = charCodeAt(text, at);
    if (code >= 0x20 && code < 0x80 && code !== 0x22 && code !== 0x5c) {
      const end = runEnd(ONE_BYTE_RUN, text, at);
      size += end - at;
      at = end;
      continue;
    }
    if (code >= 0x800 && (code < 0xd800 || code > 0xdfff)) {
      const end = runEnd(THREE_BYTE_RUN, text, at);
      size += 3 * (end - at);
      at = end;
      continue;
    }
    at += 1;
    if (code === 0x22 || code === 0x5c) size += 2;
    else if (code < 0x20) size += code === 8 || code === 9 || code === 10 || code === 12 || code === 13 ? 2 : 6;
    else if (code < 0x800) size += 2;
    else if (isHighSurrogate(code) && at < length && isLowSurrogate(charCodeAt(text, at))) {
      size += 4;
      at += 1;
    } else size += 6; // half a pair is written as an escape
  }
  return size;
}

// The nearest place at or before `at` that does not divide a surrogate pair.
function wholeEnd(text, at) {
  const divides =
    at > 0 && at < text.length && isHighSurrogate(charCodeAt(text, at - 1)) && isLowSurrogate(charCodeAt(text, at));
  return divides ? at - 1 : at;
}

// The place `count` code points after (before, if negative) the place `at`, within the text.
function move(text, at, count) {
  for (; count > 0 && at < text.length; count--) at += wholeEnd(text, at + 1) === at ? 2 : 1;
  for (; count < 0 && at > 0; count++) at = wholeEnd(text, at - 1);
  return at;
}

function codePoints(text) {
  if (runEnd(ASCII_RUN, text, 0) === text.length) return text.length;
  let count = 0;
  for (let at = 0; at < text.length; count++) at = move(text, at, 1);
  return count;
}

function countLines(text) {
  let lines = 1;
  for (let at = stringIndexOf(text, "\n", 0); at >= 0; at = stringIndexOf(text, "\n", at + 1)) lines += 1;
  return lines;
}

function lineOf(text, line) {
  let start = 0;
  for (let i = 1; i < line; i++) start = stringIndexOf(text, "\n", start) + 1;
  let end = stringIndexOf(text, "\n", start);
  if (end < 0) end = text.length;
  if (end > start && charCodeAt(text, end - 1) === 13) end -= 1; // a CRLF text
  return stringSlice(text, start, end);
}

const cutMark = (omitted) => "… [+" + omitted + " characters]";

// The head of a text and the mark of what is missing, if it is longer than `limit` UTF-16 units.
function cutText(text, limit) {
  if (text.length <= limit) return text;
  const end = wholeEnd(text, limit);
  return stringSlice(text, 0, end) + cutMark(text.length - end);
}

const MARK_BYTES = 40; // of a mark in ASCII JSON, at most

// The longest cut of a text (about) whose ASCII JSON has at most `bytes` bytes; at least its mark.
function cutToBytes(text, bytes) {
  let shown = text;
  let keep = text.length;
  for (;;) {
    const size = quote(shown).length;
    if (size <= bytes || keep === 0) return shown;
    const estimate = floor((keep * (bytes - MARK_BYTES)) / size);
    keep = estimate < 0 ? 0 : estimate < keep ? estimate : keep - 1;
    shown = cutText(text, keep);
  }
}

