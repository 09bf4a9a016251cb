// Calls: namespaces, error classes, and the queue between the program and the host.
//
// A call is admitted when it is made. What does not fit the limits of unfinished calls waits here, in call order; as
// nothing that waits is ever dropped, its id is already known. A refused call sends nothing and uses no id.

const calls = {
  __proto__: null,
  areWatched: false, // because the engine does not tell of rejections
  lastId: 0, // of the last admitted call
  unfinished: new MapOf(), // id → call, sent and not answered
  bytes: 0, // of the frames of all unfinished calls
  problem: "", // why the last refused call was refused
  first: null, // the calls that wait, linked by `next`
  last: null,
};

// Own on every promise of a call, so that `await` takes it as it is whatever Promise.prototype.constructor has become.
const OWN_CONSTRUCTOR = dataDescriptor(PromiseOf, false);

// `declared` is [{global, names, errorClass?: {name, memberNameProperty}}]; adds namespaces and classes to `parameters`.
function addNamespaces(declared, isAsync, parameters, namespaces) {
  for (let i = 0; i < declared.length; i++) {
    const { global, names } = declared[i];
    const errorClass = hasOwn(declared[i], "errorClass") ? declared[i].errorClass : null;
    const shape = { __proto__: null, prototype: ErrorPrototype, className: "", member: "" };
    if (errorClass !== null) {
      const ErrorClass = makeErrorClass(errorClass.name);
      shape.prototype = ErrorClass.prototype;
      shape.className = errorClass.name;
      shape.member = errorClass.memberNameProperty;
      parameters[errorClass.name] = ErrorClass;
    }
    const table = { __proto__: null };
    for (let k = 0; k < names.length; k++) table[names[k]] = makeFunction(global, names[k], shape, isAsync);
    parameters[global] = namespaces[global] = ObjectFreeze(table);
  }
}

function makeErrorClass(name) {
  const ErrorClass = class extends ErrorOf {
    constructor(message) {
      super(message);
    }
  };
  defineProperty(ErrorClass, "name", { __proto__: null, value: name });
  defineProperty(ErrorClass.prototype, "name", dataDescriptor(name, false));
  return ErrorClass;
}

function makeFunction(global, name, shape, isAsync) {
  const target = {
    __proto__: null,
    shape,
    name,
    middle: ',"global":' + quote(global) + ',"name":' + quote(name) + ',"args":',
  };
  const call = isAsync ? (...args) => callLater(target, args) : (...args) => callNow(target, args);
  defineProperty(call, "name", { __proto__: null, value: name });
  defineProperty(call, "length", { __proto__: null, value: 1 });
  return ObjectFreeze(call);
}

// The error of a failed call is made when the call is made, so its stack, hence its position, is that of the call. Made
// as a plain error: V8 leaves out of a stack what lies above the constructor named as new.target.
function newFailure({ shape }) {
  const failure = new ErrorOf();
  if (shape.prototype !== ErrorPrototype) setPrototypeOf(failure, shape.prototype);
  return failure;
}

function completeFailure(failure, { shape, name }, message) {
  defineProperty(failure, "message", dataDescriptor(message, false));
  if (shape.member !== "") {
    defineProperty(failure, "name", dataDescriptor(shape.className, true));
    defineProperty(failure, shape.member, dataDescriptor(name, true));
  }
  return failure;
}

// For an engine that does not report rejections: whoever waits for a promise, by whatever means of the language, asks
// for its constructor first. So that is an accessor here, and a failure before anyone has asked is one nobody handles.
// Gives the function that rejects the promise.
function watch(promise, reject) {
  let isLookedAt = false;
  const look = () => {
    isLookedAt = true;
    mapDelete(rejected, promise);
  };
  defineProperty(promise, "constructor", {
    __proto__: null,
    get() {
      look();
      return PromiseOf;
    },
    set(value) {
      look();
      defineProperty(promise, "constructor", dataDescriptor(value, false));
    },
    enumerable: false,
    configurable: true,
  });
  return (error) => {
    if (!isLookedAt) mapSet(rejected, promise, error);
    reject(error);
  };
}

// The call frame, or "" if the call is refused; then `calls.problem` says why.
function frameText(target, args) {
  if (!output.open) return refuse("no run is going on");
  if (args.length === 0) return refuse("args: undefined is not JSON");
  if (args.length !== 1) return refuse("args: one argument expected, got " + args.length);
  const argument = args[0];
  let wire;
  if (typeof argument === "string") wire = "[" + quote(argument) + "]";
  else {
    wire = encode(argument, "args", false, Infinity);
    if (wire === "") return refuse(refusal);
  }
  const text = '{"type":"call","id":' + (calls.lastId + 1) + target.middle + wire + "}";
  if (text.length <= limits.maxMessageBytes) return text;
  return refuse("args: a message of " + text.length + " bytes is above the limit of " + limits.maxMessageBytes + " bytes");
}

function refuse(problem) {
  calls.problem = problem;
  return "";
}

function callLater(target, args) {
  const failure = newFailure(target);
  const text = frameText(target, args);
  let settle;
  const promise = new PromiseOf((resolve, reject) => {
    settle = { __proto__: null, resolve, reject };
  });
  if (calls.areWatched) settle.reject = watch(promise, settle.reject);
  else defineProperty(promise, "constructor", OWN_CONSTRUCTOR);
  if (text === "") {
    settle.reject(completeFailure(failure, target, calls.problem));
    return promise;
  }
  const { resolve, reject } = settle;
  const id = calls.lastId + 1;
  const call = { __proto__: null, id, target, failure, text, size: text.length, resolve, reject, next: null };
  if (calls.first !== null) calls.last = calls.last.next = call;
  else if (fitsUnfinished(call)) sendCall(call);
  else calls.first = calls.last = call;
  calls.lastId = id;
  return promise;
}

function fitsUnfinished(call) {
  return (
    mapSize(calls.unfinished) < limits.maxPendingCalls && calls.bytes + call.size <= limits.maxMessageBytes
  );
}

// Recorded before it is sent: after the frame has gone, nothing can fail any more.
function sendCall(call) {
  mapSet(calls.unfinished, call.id, call);
  calls.bytes += call.size;
  try {
    hostSend(call.text);
  } catch (thrown) {
    // No stack or no memory left to send with. Without the memory for a frame the run cannot go on.
    if (isOutOfMemory(thrown)) endProcess("65");
    mapDelete(calls.unfinished, call.id);
    calls.bytes -= call.size;
    throw thrown;
  }
  call.text = "";
}

function callNow(target, args) {
  const text = frameText(target, args);
  if (text === "") throw completeFailure(newFailure(target), target, calls.problem);
  const id = calls.lastId + 1;
  const reply = exchange(text, id);
  if (reply.ok) return resultOf(reply);
  throw completeFailure(newFailure(target), target, reply.message);
}

function exchange(text, id) {
  let received;
  try {
    received = hostExchange(text);
  } catch (thrown) {
    if (isOutOfMemory(thrown)) endProcess("65");
    throw thrown; // no stack left: nothing was sent
  }
  calls.lastId = id;
  const reply = readFrame(received);
  return reply.id === id ? reply : endProcess("71"); // no other call can be open here
}

// A result comes as plain JSON, which reading the frame has made a value already, or as wire tokens.
const resultOf = (reply) => (hasOwn(reply, "json") ? reply.json : decode(reply.value));

function readFrame(text) {
  try {
    return JSONParse(text);
  } catch (thrown) {
    if (isOutOfMemory(thrown)) endProcess("65");
    return endProcess("71");
  }
}

// A reply in the async form. One that nobody waits for is ignored.
function receiveReply(reply) {
  const call = mapGet(calls.unfinished, reply.id);
  if (call === undefined) return;
  const value = reply.ok ? resultOf(reply) : undefined;
  mapDelete(calls.unfinished, reply.id);
  calls.bytes -= call.size;
  if (reply.ok) fulfil(call.resolve, value);
  else call.reject(completeFailure(call.failure, call.target, reply.message));
  while (calls.first !== null && fitsUnfinished(calls.first)) {
    const waiting = calls.first;
    calls.first = waiting.next;
    if (calls.first === null) calls.last = null;
    sendCall(waiting);
  }
}

// Resolving reads `then` of an object. What the program has put on Object.prototype must not make a thenable of data,
// so for the moment of the resolving the object has an own one.
function fulfil(resolve, value) {
  if (isObject(value) && thenIsInherited(value) && !hasOwn(value, "then")) {
    defineProperty(value, "then", dataDescriptor(undefined, false));
    resolve(value);
    deleteProperty(value, "then");
  } else resolve(value);
}

function thenIsInherited(value) {
  if ("then" in ObjectPrototype) return true;
  return isArray(value) && (hasOwn(ArrayPrototype, "then") || getPrototypeOf(ArrayPrototype) !== ObjectPrototype);
}

