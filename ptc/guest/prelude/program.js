// Program: load, boot, the life of the body, and its ending.
//
// The completion value of the whole script is an object of entry functions. All but `reject` take one text and give
// one text:
//   load    {data: {code, namespaces, maxOutputBytes}, form, name, setup, inputName, limits, rejections} → {} or
//           {problem: {message, line?, column?}} (the program) or {misuse: message} (the setup); runs nothing of the body;
//           or {source}, if JavaScript is not told where the error is: the adapter finds out and goes on with
//   place   {line, column} in that source, in UTF-16 units, or null → as load
//   boot    the boot frame; starts the body, in the sync form runs it to its end
//   deliver a reply frame
//   turn    asked when no job is left → "wait" (a call is unfinished) or "done" (the last frame is sent)
//   warm    does what a run does, on throw-away data, so that the pages it needs are there before a fork
//   reject  (promise, reason, handled) real values: the engine's report of a rejection nobody handles (false), and of
//           one handled after all (true)
// An engine error for lack of memory that gets here ends the process with code 65, an unreadable frame with 71.

const program = {
  __proto__: null,
  run: null, // the compiled body
  isAsync: false,
  arguments: null, // what it is called with
  inputAt: -1, // the place of the input among them
  onStart: newList(),
  ending: null, // of the body, once it has settled
};

const rejected = new MapOf(); // promise → reason, oldest first

// Of what an engine or a setup says is wrong: V8 repeats names whole, however long they are.
const PROBLEM_CHARS = 4096;

function load({ data, form, name, setup, inputName, limits: given, rejections }) {
  const isAsync = form !== "sync";
  shown.name = name;
  program.isAsync = isAsync;
  calls.areWatched = rejections === "calls";
  limits.maxOutputBytes = data.maxOutputBytes;
  setLimits(given);
  const parameters = { __proto__: null };
  const namespaces = { __proto__: null };
  addNamespaces(data.namespaces, isAsync, parameters, namespaces);
  parameters.console = programConsole;
  if (typeof inputName === "string" && inputName !== "") parameters[inputName] = undefined;
  if (setup !== "") {
    const misuse = runSetup(setup, ObjectFreeze(namespaces), parameters, inputName);
    if (misuse !== "") return { __proto__: null, misuse };
  }
  const names = ownKeys(parameters);
  setPrototypeOf(names, null);
  program.arguments = newList();
  for (let i = 0; i < names.length; i++) {
    program.arguments[i] = parameters[names[i]];
    if (names[i] === inputName) program.inputAt = i;
  }
  return compile(data.code, names, isAsync);
}

// For text that is loaded only: with no memory left for the error itself QuickJS throws null, and so may a program.
function isNoMemory(thrown) {
  return thrown === null || isOutOfMemory(thrown);
}

// Setup is trusted source of the embedding package. Gives "" or what is wrong with it.
function runSetup(source, namespaces, parameters, inputName) {
  const host = {
    __proto__: null,
    namespaces,
    copy: copyValue, // (value, root, maxDepth): a plain copy without undefined properties, or an error PATH: REASON
    onStart(run) {
      program.onStart[program.onStart.length] = run;
    },
    // For a promise of the setup's own: gives the function that rejects it, so that a rejection nobody handles counts.
    watch(promise, reject) {
      if (calls.areWatched) return watch(promise, reject);
      defineProperty(promise, "constructor", OWN_CONSTRUCTOR);
      return reject;
    },
    dropUndefined() {
      output.drops = true; // object properties that are undefined are left out of the program's value too
    },
  };
  let extra;
  try {
    const run = evaluateGlobally("(function (host) { 'use strict';\n" + source + "\n})");
    extra = ReflectApply(run, undefined, [ObjectFreeze(host)]);
  } catch (thrown) {
    if (isNoMemory(thrown)) endProcess("65");
    return "setup failed: " + cutText(describe(thrown), PROBLEM_CHARS);
  }
  if (extra === undefined || extra === null) return "";
  if (typeof extra !== "object") return "setup must return an object or nothing";
  const names = ObjectKeys(extra);
  let list = "";
  for (let i = 0; i < names.length; i++) {
    if (names[i] === inputName) return "setup cannot replace the input parameter " + quote(names[i]) + "; use onStart";
    if (regExpExec(IDENTIFIER, names[i]) === null) return "setup: parameter " + quote(names[i]) + " is not an identifier";
    if (extra[names[i]] === undefined) delete parameters[names[i]];
    else parameters[names[i]] = extra[names[i]];
    list += (i > 0 ? "," : "") + names[i];
  }
  try {
    evaluateGlobally("(function (" + list + ") { 'use strict'; })");
  } catch {
    return "setup: one of its parameters is a reserved word: " + list;
  }
  return "";
}

// The body stands on lines of its own inside a block with a label nobody knows, which the closing text names again: a
// body that closes the block, whatever it opens then, is a syntax error, and nothing of it runs.
function compile(code, names, isAsync) {
  const label = "L" + stringSlice("" + random(), 2) + stringSlice("" + random(), 2);
  let parameters = "";
  for (let i = 0; i < names.length; i++) parameters += (i > 0 ? ", " : "") + names[i];
  const source =
    "(" + (isAsync ? "async " : "") + "function (" + parameters + ") { 'use strict'; " + label + ": {" +
    stringRepeat("\n", BASE_LINE) + code + "\n break " + label + "; } })";
  showProgram(code);
  try {
    program.run = evaluateGlobally(source);
    return { __proto__: null };
  } catch (thrown) {
    if (isNoMemory(thrown)) endProcess("65");
    unplaced.message = cutText(describe(thrown), PROBLEM_CHARS);
    unplaced.code = code;
    if (!isQuickJS) return { __proto__: null, problem: placeProblem(null), source };
    return { __proto__: null, problem: placeProblem(syntaxPlace(thrown)) };
  }
}

const SYNTAX_PLACE = /^ *at <input>:(\d{1,9})(?::(\d{1,9}))?/;
const unplaced = { __proto__: null, message: "", code: "" }; // the text that did not compile, and why

// {line, column} as QuickJS tells it, in code points; null if it names no place (no stack left).
function syntaxPlace(thrown) {
  const text = isError(thrown) ? readEngineStack(thrown) : undefined;
  const match = typeof text === "string" ? regExpExec(SYNTAX_PLACE, text) : null;
  if (match === null) return null;
  return { __proto__: null, line: toNumber(match[1]), column: match[2] === undefined ? 1 : toNumber(match[2]) };
}

// {message, line, column} in the program's own text; no line and column if the place is not known.
function placeProblem(place) {
  const { message, code } = unplaced;
  const problem = { __proto__: null, message };
  if (place === null) return problem;
  let { column } = place;
  let line = place.line - BASE_LINE;
  if (!isQuickJS && line >= 1) {
    if (shown.hasOddLines) ({ line, column } = placeInLines(line, column));
    if (line <= shown.lines) column = codePointColumn(line, column);
  }
  if (line > shown.lines) {
    // The engine has read on into the text behind the program; what it says is about that text.
    problem.message = "SyntaxError: unexpected end of program, or a bracket that closes more than it opens";
    const end = trimmedEnd(code);
    const start = stringLastIndexOf(stringSlice(code, 0, end), "\n") + 1;
    problem.line = countLines(stringSlice(code, 0, end));
    problem.column = max1(codePoints(stringSlice(code, start, end)));
    return problem;
  }
  problem.line = max1(line);
  const width = max1(codePoints(lineOf(code, problem.line)));
  problem.column = line < 1 ? 1 : column > width ? width : max1(column);
  return problem;
}

function loadAnswer({ problem, misuse, source }) {
  if (source !== undefined) return '{"source":' + quote(source) + "}";
  if (misuse !== undefined) return '{"misuse":' + quote(misuse) + "}";
  if (problem === undefined) return "{}";
  const place = problem.line === undefined ? "" : ',"line":' + problem.line + ',"column":' + problem.column;
  return '{"problem":{"message":' + quote(problem.message) + place + "}}";
}

const max1 = (number) => (number < 1 ? 1 : number);

// The end of the text without the blanks behind it.
function trimmedEnd(text) {
  let end = text.length;
  while (end > 0 && charCodeAt(text, end - 1) <= 32) end -= 1;
  return end;
}

function setLimits(given) {
  if (given === undefined || given === null) return;
  const names = ObjectKeys(limits);
  for (let i = 0; i < names.length; i++) {
    if (hasOwn(given, names[i]) && typeof given[names[i]] === "number") limits[names[i]] = given[names[i]];
  }
}

function boot(frame) {
  setLimits(frame.limits);
  let misfit = null;
  if (program.arguments === null) misfit = bareLoad(frame.data);
  limits.maxOutputBytes = frame.data.maxOutputBytes;
  if (hostStart !== undefined) hostStart(typeof frame.limits.timeoutMs === "number" ? "" + frame.limits.timeoutMs : "");
  clock.start = milliseconds();
  output.open = true;
  if (misfit !== null) {
    program.ending = misfit;
    return;
  }
  let input = hasOwn(frame, "inputJson") ? frame.inputJson : hasOwn(frame, "input") ? decode(frame.input) : undefined;
  for (let i = 0; i < program.onStart.length; i++) {
    const replaced = ReflectApply(program.onStart[i], undefined, [input]);
    if (replaced !== undefined) input = replaced;
  }
  if (program.inputAt >= 0) program.arguments[program.inputAt] = input;
  start();
}

// A run whose program was not loaded beforehand: the boot frame carries it. Gives the ending of one that cannot start.
function bareLoad(data) {
  const answer = load({ __proto__: null, data, form: "async", name: "program.js", setup: "", inputName: "" });
  const { problem } = answer;
  if (problem === undefined) return null;
  const place = problem.line === undefined ? undefined : problem;
  return { __proto__: null, message: problem.message, kind: "exception", frames: newList(), place };
}

function start() {
  let result;
  try {
    result = ReflectApply(program.run, undefined, program.arguments);
  } catch (thrown) {
    program.ending = errorEnding(thrown);
    return;
  }
  if (isAwaitable(result)) awaitBody(result);
  else program.ending = valueEnding(result);
}

// A promise, or what the language takes for one. Plain data counts only by its own `then`: what the program has put on
// Object.prototype is not part of the value.
function isAwaitable(value) {
  if (!isObject(value)) return false;
  try {
    const prototype = getPrototypeOf(value);
    if (prototype !== ObjectPrototype && prototype !== ArrayPrototype && prototype !== null) return true;
    return hasOwn(value, "then");
  } catch {
    return false; // a Proxy that does not let itself be looked at: admission will say so
  }
}

async function awaitBody(promise) {
  let value;
  try {
    if (program.isAsync) defineProperty(promise, "constructor", OWN_CONSTRUCTOR); // nobody else has this promise
    value = await promise;
  } catch (thrown) {
    program.ending = errorEnding(thrown);
    return;
  }
  program.ending = valueEnding(value);
}

function turn() {
  if (!output.open) return "done";
  if (mapSize(calls.unfinished) > 0) return "wait";
  sendDone(chooseEnding());
  return "done";
}

// The body's own error first, then the oldest rejection nobody has handled, then the value.
function chooseEnding() {
  const { ending } = program;
  if (ending !== null && ending.message !== undefined) return ending;
  if (mapSize(rejected) > 0) {
    output.open = false; // an accessor of the program asked for its message must not start anything any more
    const uncaught = errorEnding(mapNext(mapValues(rejected)).value);
    output.open = true;
    return uncaught;
  }
  if (ending !== null) return ending;
  const message = "the program waits for something that can never come";
  return { __proto__: null, message, kind: "stuck", frames: newList() };
}

// Only what every run goes through: more would cost each waiting process more than it saves the few that use it.
function warm() {
  const text = encode(JSONParse('{"a":[1,2.5,true,null,"text"]}'), "value", false, Infinity);
  decode(JSONParse(text));
  new PromiseOf((resolve) => fulfil(resolve, text));
}

// Entry functions: nothing but lack of memory is expected to get here, anything else is a fault of the guest.
function entry(run) {
  return (text) => {
    try {
      return run(text);
    } catch (thrown) {
      if (isOutOfMemory(thrown)) endProcess("65");
      throw thrown;
    }
  };
}

return {
  __proto__: null,
  load: entry((text) => onePiece(loadAnswer(load(readFrame(text))))),
  place: entry((text) => onePiece(loadAnswer({ __proto__: null, problem: placeProblem(readFrame(text)) }))),
  boot: entry((text) => {
    boot(readFrame(text));
    return "";
  }),
  deliver: entry((text) => {
    if (output.open) receiveReply(readFrame(text));
    return "";
  }),
  turn: entry(turn),
  warm: entry(() => {
    warm();
    return "";
  }),
  reject(promise, reason, handled) {
    if (handled) mapDelete(rejected, promise);
    else mapSet(rejected, promise, reason);
  },
};
