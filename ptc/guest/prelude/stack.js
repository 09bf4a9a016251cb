// Stacks and positions: only frames of the program show, with the lines of its own text.
//
// Every frame of this engine names the same file. The program's body is compiled behind BASE_LINE line breaks, so a
// frame below that line is ours (or compiled at run time, or native) and is dropped.

const BASE_LINE = 4096;
const MAX_FRAMES = 20;
const ENGINE_FRAMES = 50; // frames the engine collects: native ones and ours lie between those of the program
const FRAME_NAME_CHARS = 200; // a function's name is the program's to choose

// The program as frames name it, and its text if a column in it need not be what the engine says.
const shown = { __proto__: null, name: "program.js", lines: 0, code: "" };

function showProgram(code) {
  shown.lines = countLines(code);
  shown.code = runEnd(ASCII_RUN, code, 0) === code.length ? "" : code;
}

// Frames of running code count columns in bytes of UTF-8 (those of syntax errors do not).
function codePointColumn(line, column) {
  if (shown.code === "") return column;
  const text = lineOf(shown.code, line);
  let bytes = 1;
  let result = 1;
  for (let at = 0; at < text.length && bytes < column; at = move(text, at, 1), result++) {
    const code = charCodeAt(text, at);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : wholeEnd(text, at + 1) === at ? 4 : 3;
  }
  return result;
}

const engineStackProperty = getOwnPropertyDescriptor(ErrorPrototype, "stack");
const readEngineStack =
  engineStackProperty !== undefined && engineStackProperty.get !== undefined
    ? uncurry(engineStackProperty.get)
    : (error) => ownData(error, "stack");

ErrorOf.stackTraceLimit = ENGINE_FRAMES;
delete ErrorOf.stackTraceLimit;
delete ErrorOf.prepareStackTrace;
delete ErrorOf.captureStackTrace;

// `    at name (<input>:12:3)` or `    at <input>:12:3`
const FRAME = /^ *at (?:([^]*) \()?<input>:(\d{1,9})(?::(\d{1,9}))?\)?$/;

// The program's frames in the engine's text of an error, innermost first: {name, line, column}.
function programFrames(error) {
  const frames = newList();
  const text = isError(error) ? readEngineStack(error) : undefined;
  if (typeof text !== "string") return frames;
  let from = 0;
  let count = 0;
  while (from < text.length && count < MAX_FRAMES) {
    let end = stringIndexOf(text, "\n", from);
    if (end < 0) end = text.length;
    const match = regExpExec(FRAME, stringSlice(text, from, end));
    from = end + 1;
    if (match === null) continue;
    const line = toNumber(match[2]) - BASE_LINE;
    if (line < 1 || line > shown.lines) continue;
    const name = match[1] === undefined || match[1] === "<anonymous>" || match[1] === "<eval>" ? "" : match[1];
    const column = match[3] === undefined ? 1 : codePointColumn(line, toNumber(match[3]));
    frames[count++] = { __proto__: null, name, line, column: column < 1 ? 1 : column };
  }
  return frames;
}

function framesText(frames) {
  let text = "";
  for (let i = 0; i < frames.length; i++) {
    const frame = frames[i];
    const place = shown.name + ":" + frame.line + ":" + frame.column;
    const line = frame.name === "" ? place : cutText(frame.name, FRAME_NAME_CHARS) + " (" + place + ")";
    text += (i > 0 ? "\n" : "") + "    at " + line;
  }
  return text;
}

// `stack` stays an accessor of Error.prototype. Writing it makes an own property, as the engine's does.
if (engineStackProperty !== undefined && engineStackProperty.get !== undefined) {
  const { get, set } = getOwnPropertyDescriptor(
    {
      get stack() {
        return isObject(this) && isError(this) ? framesText(programFrames(this)) : undefined;
      },
      set stack(value) {
        if (isObject(this)) defineProperty(this, "stack", dataDescriptor(value, false));
      },
    },
    "stack",
  );
  defineProperty(ErrorPrototype, "stack", { __proto__: null, get, set, enumerable: false, configurable: true });
}

