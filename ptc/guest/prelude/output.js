// Output: the frames the run sends by itself, and the ledger of what it has put out.
//
// The ledger counts as the host does: 2 bytes to begin with, each entry its JSON string and a comma after the first,
// then the value, or message and stack. The entry that does not fit is still sent, so the host can keep its head.

const LOG_ENVELOPE_BYTES = 64; // of a log frame around its text, at most
const DONE_ENVELOPE_BYTES = 160; // of a done frame around message and stack, at most
const BEGIN_BYTES = 2;

const output = { __proto__: null, open: false, drops: false, used: BEGIN_BYTES, entries: 0 };

function endProcess(code) {
  output.open = false;
  hostExit(code);
  throw { __proto__: null, message: "the process ends" }; // not reached in a process
}

function outputLimit() {
  output.open = false;
  hostSend('{"type":"output-limit"}');
  endProcess("0");
}

function sendLog(level, text) {
  if (!output.open) return; // while the image is made, and after the end
  let shownText = cutText(text, limits.maxLogChars);
  let json = quote(shownText);
  if (json.length + LOG_ENVELOPE_BYTES > limits.maxMessageBytes) {
    shownText = cutToBytes(text, limits.maxMessageBytes - LOG_ENVELOPE_BYTES);
    json = quote(shownText);
  }
  const size = stringSize(shownText) + (output.entries > 0 ? 1 : 0);
  const fits = output.used + size <= limits.maxOutputBytes && output.entries < limits.maxLogEntries;
  const levelField = level === "log" ? "" : ',"level":"' + level + '"';
  const cutField = shownText === text ? "" : ',"cut":' + cutCount(text, shownText);
  hostSend('{"type":"log","text":' + json + levelField + cutField + "}");
  if (!fits) outputLimit();
  output.used += size;
  output.entries += 1;
}

// How many characters a cut left out: those of the text less those of the head before the mark.
function cutCount(text, cut) {
  return text.length - stringLastIndexOf(cut, "… [+");
}

function makeConsole() {
  const table = { __proto__: null };
  const add = (level) => {
    const method = {
      [level](...args) {
        sendLog(level, printEntry(args));
      },
    }[level];
    table[level] = ObjectFreeze(method);
  };
  add("log");
  add("info");
  add("warn");
  add("error");
  add("debug");
  return ObjectFreeze(table);
}

// The ending of a body, measured when it settles: {size, text} of a value, or {message, kind, frames} of an error.
function valueEnding(value) {
  if (value === undefined) return { __proto__: null, size: 0, text: "" };
  const text = encode(value, "value", output.drops, Infinity);
  if (text === "") return { __proto__: null, message: refusal, kind: "invalid-output", frames: newList() };
  return { __proto__: null, size: jsonSize(text), text };
}

function errorEnding(thrown) {
  if (isOutOfMemory(thrown)) endProcess("65");
  return { __proto__: null, message: describe(thrown), kind: "exception", frames: programFrames(thrown) };
}

function sendDone(ending) {
  const cpu = hostCpu === undefined ? "" : ',"cpuMs":' + hostCpu("");
  if (ending.message === undefined) {
    const frame = '{"type":"done"' + (ending.text === "" ? "" : ',"value":' + ending.text) + cpu + "}";
    if (frame.length > limits.maxMessageBytes || output.used + ending.size > limits.maxOutputBytes) outputLimit();
    hostSend(frame);
  } else {
    hostSend(errorFrame(ending, cpu));
  }
  output.open = false;
}

// The message is cut to what one entry may have and one frame can hold; a stack that does not fit is left out.
function errorFrame({ message, kind, frames, place }, cpu) {
  const room = limits.maxMessageBytes - DONE_ENVELOPE_BYTES;
  const text = cutToBytes(cutText(message, limits.maxLogChars), room);
  const size = output.used + stringSize(text);
  if (size > limits.maxOutputBytes) outputLimit();
  const json = quote(text);
  const stack = framesText(frames);
  const stackJson = quote(stack);
  const stackFits =
    stack !== "" && json.length + stackJson.length <= room && size + stringSize(stack) <= limits.maxOutputBytes;
  const at = frames.length > 0 ? frames[0] : place;
  return (
    '{"type":"done","error":{"message":' + json + ',"kind":"' + kind + '"' +
    (at === undefined ? "" : ',"at":{"line":' + at.line + ',"column":' + at.column + "}") +
    (stackFits ? ',"stack":' + stackJson : "") + "}" + cpu + "}"
  );
}

