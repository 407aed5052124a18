'use strict';
// Requests without the parser of node:http. Maitred has parsed them, and writes their heads in one form (PROTOCOL.md, section 4),
// so that the objects of node:http can be made from a frame at once; what node:http does around a request, this does. The
// parser reads what is left: upgrades, bodies that come while the application runs, trailers, and what it would refuse.

const { AsyncResource } = require('node:async_hooks');
const diagnostics = require('node:diagnostics_channel');
const http = require('node:http');

const { EXCHANGE } = require('./file');
const { FLAG } = require('./frames');

/** `MAITRED_PARSER=node` has the parser of node:http read every request. */
const PARSER_VARIABLE = 'MAITRED_PARSER';
/** Where a request keeps what `request.maitred` is. */
const IDENTITY = Symbol('maitred identity');
const METHODS = new Set(http.METHODS);
const TARGET = /^[!-~]+$/;
/** What Maitred writes behind the fields of a client. */
const OWN = /\r\nx-request-id: ([!-~]*)\r\nx-request-start: ([!-~]*)\r\n\r\n/y;
/** A block of fields that the parser of node:http takes, too. */
const FIELDS = /^(?:\r\n[!#$%&'*+\-.^_`|~\w]+: [^\0-\x08\n-\x1f\x7f]*)*$/;
const REQUEST_ID = '\r\nx-request-id: ';
/** Length of ` HTTP/1.1`. */
const VERSION_BYTES = 9;
const started = diagnostics.channel('http.server.request.start');
const finished = diagnostics.channel('http.server.response.finish');

function symbolOf(object, description) {
  return Object.getOwnPropertySymbols(object).find((symbol) => symbol.description === description);
}

/** Adds the lines of `text` from one line end to another. */
function addFields(fields, text, from, to) {
  for (let at = from; at < to;) {
    const colon = text.indexOf(': ', at);
    const end = text.indexOf('\r\n', colon);
    fields.push(text.slice(at + 2, colon), text.slice(colon + 2, end));
    at = end;
  }
}

/** The fields of one connection, which are mostly those of the request before it. */
class Fields {
  constructor() {
    this.text = '';
    this.list = [];
  }

  /** Names and values of what stands from `from` on, a line end, up to the empty line; null if the parser is to judge it. */
  read(text, from) {
    let at = from + this.text.length;
    // A comparison of strings costs less than `startsWith`.
    if (text.slice(from, at) !== this.text || !text.startsWith(REQUEST_ID, at)) {
      const end = text.lastIndexOf(REQUEST_ID);
      const known = text.slice(from, end < from ? text.length - 4 : end);
      if (!FIELDS.test(known)) return null;
      this.text = known;
      this.list = [];
      at = from + known.length;
      addFields(this.list, text, from, at);
    }
    const fields = this.list.slice();
    const end = text.length - 4;
    OWN.lastIndex = at;
    const own = OWN.exec(text);
    if (own !== null && OWN.lastIndex === text.length) {
      fields.push('x-request-id', own[1], 'x-request-start', own[2]);
    } else if (at < end) {
      if (!FIELDS.test(text.slice(at, end))) return null;
      addFields(fields, text, at, end);
    }
    return fields;
  }
}

/** What node:http does when a response is out. */
function onFinish() {
  const exchange = this[EXCHANGE];
  const { socket, req: request } = this;
  if (!socket) return;
  if (finished.hasSubscribers) finished.publish({ request, response: this, socket, server: socket.server });
  if (!request._consumed) dump(request);
  socket._httpMessage = null;
  this.socket = null;
  process.nextTick(closed, this);
  exchange.link.finished(exchange);
  if (this._last) socket.destroySoon();
  exchange.link.goOn();
}

/** Without a listener and a body, and unread, a request needs none of the events of a stream. */
function isUnseen(request) {
  return request._eventsCount === 0 && !request._consumed && request.readableLength === 0 && request.readableFlowing === null;
}

function dump(request) {
  if (!request.complete || !isUnseen(request)) return void request._dump();
  request._dumped = true;
  const state = request._readableState;
  state.endEmitted = true;
  state.destroyed = true;
  state.closed = true;
  state.closeEmitted = true;
  return undefined;
}

function closed(response) {
  if (response._closed) return;
  response.destroyed = true;
  response._closed = true;
  response.emit('close');
}

/** The client has gone, or the application has given it up. */
function onClose() {
  const response = this._httpMessage;
  if (!response) return;
  response.req.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
  closed(response);
}

function onTimeout() {
  const response = this._httpMessage;
  const { req: request } = response ?? {};
  const heard = [
    request && !request.complete && request.emit('timeout', this), response?.emit('timeout', this),
    this.server.emit('timeout', this),
  ];
  if (!heard.some(Boolean)) this.destroy();
}

function onError(error) {
  if (!this.server.emit('clientError', error, this)) this.destroy(error);
}

function onDrain() {
  const response = this._httpMessage;
  if (!response?.writableNeedDrain) return;
  const needs = symbolOf(response, 'kNeedDrain');
  if (needs) response[needs] = false;
  response.emit('drain');
}

const LISTENERS = { close: onClose, timeout: onTimeout, error: onError, drain: onDrain };

/** Requests of one server. */
class Requests {
  constructor(server, event) {
    this.server = server;
    const symbols = ['IncomingMessage', 'ServerResponse'].map((name) => symbolOf(server, name));
    [this.incoming, this.outgoing] = symbols;
    this.headBytesMax = server.maxHeaderSize ?? http.maxHeaderSize;
    this.unique = symbolOf(server, 'kUniqueHeaders');
    /** Sockets that no parser reads. */
    this.sockets = new Set();
    const [listener] = new http.Server().listeners('connection');
    this.listener = server.listeners(event).includes(listener) ? listener : null;
    this.works = process.env[PARSER_VARIABLE] !== 'node' && this.listener !== null && !symbols.includes(undefined);
    if (!this.works) return;
    const requests = this;
    const others = server.listeners(event).filter((other) => other !== listener);
    server.removeAllListeners(event);
    server.on(event, function connection(socket) {
      if (socket.link) requests.welcome(socket);
      else listener.call(this, socket);
    });
    for (const other of others) server.on(event, other);
  }

  /** A socket whose requests mostly do not need to be read from it. */
  welcome(socket) {
    const { server, sockets } = this;
    socket.server = server;
    socket.isParsed = false;
    if (server.timeout) socket.setTimeout(server.timeout);
    for (const [name, listener] of Object.entries(LISTENERS)) socket.on(name, listener);
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  }

  /** From now on the parser of node:http reads this socket. */
  parse(socket) {
    if (socket.isParsed) return;
    socket.isParsed = true;
    this.sockets.delete(socket);
    for (const [name, listener] of Object.entries(LISTENERS)) socket.removeListener(name, listener);
    this.listener.call(this.server, socket);
  }

  /**
   * Gives a request to the server; false if the parser is to read it. `text` is its head, from `from` on.
   */
  offer(link, exchange, frame, text, from) {
    const { client: socket } = link;
    const { flags } = frame;
    if (socket.isParsed || flags & (FLAG.MAY_DETACH | FLAG.BODY_STREAM) || frame.trailers) return false;
    if (text.length - from > this.headBytesMax || socket.listenerCount('data')) return false;
    const line = text.indexOf('\r\n', from);
    const space = text.indexOf(' ', from);
    const method = text.slice(from, space);
    const url = text.slice(space + 1, line - VERSION_BYTES);
    if (!METHODS.has(method) || method === 'CONNECT' || !TARGET.test(url)) return false;
    const fields = link.fields.read(text, line);
    if (fields === null) return false;
    if (!(flags & FLAG.KEEP)) fields.push('connection', 'close');
    else if (flags & FLAG.HTTP10) fields.push('connection', 'keep-alive');
    const request = this.request(socket, method, url, fields, flags);
    request[IDENTITY] = exchange.meta.identity;
    exchange.incoming = request;
    this.begin(link, exchange, request, frame);
    return true;
  }

  request(socket, method, url, fields, flags) {
    const { server } = this;
    const request = new server[this.incoming](socket);
    request.httpVersionMajor = 1;
    request.httpVersionMinor = flags & FLAG.HTTP10 ? 0 : 1;
    request.httpVersion = flags & FLAG.HTTP10 ? '1.0' : '1.1';
    request.joinDuplicateHeaders = server.joinDuplicateHeaders;
    request.url = url;
    request.upgrade = false;
    const most = server.maxHeadersCount * 2;
    request._addHeaderLines(fields, most > 0 ? Math.min(fields.length, most) : fields.length);
    request.method = method;
    return request;
  }

  begin(link, exchange, request, frame) {
    const { server } = this;
    const { client: socket } = link;
    const timeout = server.timeout || 0;
    // One that another request has asked for was its own.
    if ((socket.timeout || 0) !== timeout) socket.setTimeout(timeout);
    const response = new server[this.outgoing](request, {
      highWaterMark: socket.writableHighWaterMark, rejectNonStandardBodyWrites: server.rejectNonStandardBodyWrites,
    });
    response.shouldKeepAlive = Boolean(frame.flags & FLAG.KEEP);
    if (this.unique !== undefined) response[this.unique] = server[this.unique];
    if (started.hasSubscribers) started.publish({ request, response, socket, server });
    socket._httpMessage = response;
    response.socket = socket;
    response[EXCHANGE] = exchange;
    // Maitred decides about the connection; so there is nothing to say about it.
    response.removeHeader('connection');
    response.on('finish', onFinish);
    socket.remember();
    // As a parser does: what the listener has running belongs to this request, and to no other one of this batch.
    new AsyncResource('HTTPINCOMINGMESSAGE').runInAsyncScope(emit, server, request, response);
    if (frame.bodyBytes > 0 && !request._dumped) request.push(frame.body);
    request.complete = true;
    if (isUnseen(request)) request._readableState.ended = true;
    else request.push(null);
  }

  /** Those between two requests. */
  closeIdle() {
    for (const socket of this.sockets) if (!socket._httpMessage || socket._httpMessage.finished) socket.destroy();
  }

  closeAll() {
    for (const socket of this.sockets) socket.destroy();
  }
}

function emit(request, response) {
  this.emit('request', request, response);
}

/** `request.maitred`: of the request and not of its socket, which brings those of other clients, too. */
function identify() {
  Object.defineProperty(http.IncomingMessage.prototype, 'maitred', {
    get() { return this[IDENTITY]; }, configurable: true, enumerable: false,
  });
}

module.exports = { IDENTITY, Fields, Requests, identify };
