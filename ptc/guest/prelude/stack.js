// Stacks and positions: only frames of the program show, with the lines of its own text.
//
// The program's body is compiled behind BASE_LINE line breaks, so a frame above that line is ours (or compiled at run
// time, or native) and is dropped. This is where the engines differ: QuickJS has the stack as text behind an accessor
// of Error.prototype, V8 makes it for each error with a function it finds on Error.

const BASE_LINE = 4096;
const MAX_FRAMES = 20;
const ENGINE_FRAMES = 50; // frames the engine collects: native ones and ours lie between those of the program
const FRAME_NAME_CHARS = 200; // a function's name is the program's to choose

const stackAccessor = getOwnPropertyDescriptor(ErrorPrototype, "stack");
const isQuickJS = stackAccessor !== undefined;

// The program as frames name it, and its text if a column in it need not be what the engine says.
const shown = { __proto__: null, name: "program.js", lines: 0, code: "", hasOddLines: false };

const LINE_END = /\r\n|[\n\r\u2028\u2029]/g; // as V8 counts lines, inside of strings too; for us only LF ends one
const ODD_LINE_END = /\r(?!\n)|[\u2028\u2029]/;

function showProgram(code) {
  shown.lines = countLines(code);
  shown.hasOddLines = !isQuickJS && regExpExec(ODD_LINE_END, code) !== null;
  shown.code = !shown.hasOddLines && runEnd(ASCII_RUN, code, 0) === code.length ? "" : code;
}

// Where in the program, in its own lines and in UTF-16 units, is what V8 places so.
function placeInLines(line, column) {
  let at = 0;
  for (let i = 1; i < line; i++) {
    LINE_END.lastIndex = at;
    if (regExpExec(LINE_END, shown.code) === null) return { __proto__: null, line: shown.lines + 1, column: 1 };
    at = LINE_END.lastIndex;
  }
  const before = stringSlice(shown.code, 0, at + column - 1);
  return { __proto__: null, line: countLines(before), column: before.length - stringLastIndexOf(before, "\n") };
}

// Frames count columns in bytes of UTF-8 (QuickJS; not so its syntax errors) or in UTF-16 units (V8).
function codePointColumn(line, column) {
  if (shown.code === "") return column;
  const text = lineOf(shown.code, line);
  let counted = 1;
  let result = 1;
  let at = 0;
  while (at < text.length && counted < column) {
    const plain = runEnd(ASCII_RUN, text, at) - at;
    const step = plain < column - counted ? plain : column - counted;
    at += step;
    counted += step;
    result += step;
    if (at === text.length || counted >= column) break;
    const next = move(text, at, 1);
    counted += isQuickJS ? utf8Length(text, at, next) : next - at;
    at = next;
    result += 1;
  }
  return result;
}

function utf8Length(text, at, next) {
  if (next - at === 2) return 4;
  return charCodeAt(text, at) < 0x800 ? 2 : 3;
}

const readEngineStack = uncurry((stackAccessor ?? getOwnPropertyDescriptor(new ErrorOf(), "stack")).get);

// The program's frames of an error, innermost first: {name, line, column}.
function programFrames(error) {
  const text = isError(error) ? readEngineStack(error) : undefined;
  if (typeof text !== "string") return newList();
  return isQuickJS ? parseFrames(text) : (weakMapGet(framesByError, error) ?? newList());
}

function addFrame(frames, name, engineLine, engineColumn) {
  let line = engineLine - BASE_LINE;
  if (line < 1 || frames.length === MAX_FRAMES) return;
  if (shown.hasOddLines) ({ line, column: engineColumn } = placeInLines(line, engineColumn));
  if (line > shown.lines) return;
  const column = codePointColumn(line, engineColumn);
  frames[frames.length] = { __proto__: null, name, line, column: column < 1 ? 1 : column };
}

// `    at name (<input>:12:3)` or `    at <input>:12:3`
const FRAME = /^ *at (?:([^]*) \()?<input>:(\d{1,9})(?::(\d{1,9}))?\)?$/;

function parseFrames(text) {
  const frames = newList();
  for (let from = 0; from < text.length && frames.length < MAX_FRAMES; ) {
    let end = stringIndexOf(text, "\n", from);
    if (end < 0) end = text.length;
    const match = regExpExec(FRAME, stringSlice(text, from, end));
    from = end + 1;
    if (match === null) continue;
    const name = match[1] === undefined || match[1] === "<anonymous>" || match[1] === "<eval>" ? "" : match[1];
    addFrame(frames, name, toNumber(match[2]), match[3] === undefined ? 1 : toNumber(match[3]));
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

// QuickJS: `stack` stays an accessor of Error.prototype. Writing it makes an own property, as the engine's does.
function hideStackOfQuickJS() {
  ErrorOf.stackTraceLimit = ENGINE_FRAMES;
  delete ErrorOf.stackTraceLimit; // a hook into the engine: what the program now puts there has no effect
  delete ErrorOf.prepareStackTrace;
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

const framesByError = new WeakMap(); // V8 only

// V8: the function that makes a stack's text is looked up on Error, so it has to stay there. What the program assigns
// is ignored. It may lower or remove `stackTraceLimit`, and then has no positions.
function hideStackOfV8() {
  ErrorOf.prepareStackTrace = (_error, sites) => sites;
  const Site = getPrototypeOf(new ErrorOf().stack[0]);
  const functionName = uncurry(Site.getFunctionName);
  const lineNumber = uncurry(Site.getLineNumber);
  const columnNumber = uncurry(Site.getColumnNumber);
  const prepare = (error, sites) => {
    const frames = newList();
    for (let i = 0; i < sites.length; i++) {
      const name = functionName(sites[i]);
      // V8 calls the outermost function of compiled text, the body, "eval".
      addFrame(frames, typeof name === "string" && name !== "eval" ? name : "", lineNumber(sites[i]) ?? 0, columnNumber(sites[i]) ?? 1);
    }
    weakMapSet(framesByError, error, frames);
    return framesText(frames);
  };
  const get = () => prepare;
  const set = () => {};
  defineProperty(ErrorOf, "prepareStackTrace", { __proto__: null, get, set, enumerable: false, configurable: false });
  ErrorOf.stackTraceLimit = ENGINE_FRAMES;
}

if (isQuickJS) hideStackOfQuickJS();
else hideStackOfV8();
delete ErrorOf.captureStackTrace;

