'use strict';

const { performance } = require('node:perf_hooks');

const { inChunks } = require('./chunks');
const { ClientSocket } = require('./client_socket');
const { FLAG, OUTCOME, TAIL_TOTAL_BYTES_MAX, refuse } = require('./frames');
const { openBelow } = require('./file');
const { Fields } = require('./requests');
const { BadResponse, Response } = require('./response');
const { kept, startOver } = require('./texts');
const { wholeOf } = require('./whole');

/** The last line of a meta. */
const QUEUE = 'queue_us=';
const UPGRADE_LINES = /\r\n(?:upgrade|connection):[^\r\n]*/g;
/** HTTP/2 begins on connections of its own with Maitred, so this offer, which some clients always make, is not passed on. */
const H2C = /\r\nupgrade: *h2c\r\n/i;
const CONTENT_LENGTH = /\r\ncontent-length: (\d+)\r\n/;
/** Requests that a relay brings to one socket of the application, which may add listeners with each. */
const SOCKET_REQUESTS_MAX = 1000;
const FAILURE = 'Internal Server Error\n';
const NO_ADDRESS = { address: undefined, port: undefined, family: undefined };

/** `IP:port` or `[IPv6]:port`. */
function address(text) {
  const colon = text ? text.lastIndexOf(':') : -1;
  if (colon < 0) return NO_ADDRESS;
  const host = text.slice(0, colon);
  const v6 = host.startsWith('[');
  return {
    address: v6 ? host.slice(1, -1) : host, port: Number(text.slice(colon + 1)), family: v6 ? 'IPv6' : 'IPv4',
  };
}

/** `request.maitred`: one object for all requests of this user on the connection, which is never another one's. */
function identityOf(values) {
  const user = values.get('user') || null;
  return Object.freeze({ user, authType: (user && values.get('auth_type')) || null });
}

function parseMeta(text) {
  const values = new Map();
  for (const line of text.split('\n')) {
    const equals = line.indexOf('=');
    if (equals > 0) values.set(line.slice(0, equals), line.slice(equals + 1));
  }
  return {
    remote: address(values.get('remote')),
    local: address(values.get('local')),
    scheme: values.get('scheme') || 'http',
    mount: values.get('mount') || '',
    earlyHints: values.get('early_hints') === '1',
    trailers: values.get('trailers') === '1',
    continues: values.get('continue') === '1',
    sendfileRoot: values.get('sendfile_root') || null,
    serverHeader: values.get('server_header') !== '0',
    identity: identityOf(values),
  };
}

const NO_META = parseMeta('');

/** One request, from its REQUEST to its DONE. */
class Exchange {
  constructor(link, frame, meta, now) {
    this.link = link;
    this.number = frame.request;
    this.flags = frame.flags;
    this.meta = meta;
    this.judged = null;
    /** Of a response that was whole: its status, and the bytes of its body. */
    this.status = 0;
    this.bodyBytes = 0;
    this.began = now;
    /** Whether there is something of the final response with the client, or on its way. */
    this.written = false;
    this.waiting = false;
    this.done = false;
    /** The application has it as an 'upgrade' event. */
    this.upgrade = false;
    /** The request as node:http has it. */
    this.incoming = null;
    /** What is left of the body, if Maitred is to read it from a file. */
    this.file = null;
  }

  /** What is judged piece by piece, as most responses are not. */
  get response() {
    this.judged ??= new Response(this.flags, this.meta);
    return this.judged;
  }

  /** Whether nothing of the final response was written. */
  get isFresh() {
    return this.judged === null ? this.status === 0 : this.judged.isFresh;
  }

  /** The file is passed, or not wanted. */
  dropFile() {
    this.file?.close();
    this.file = null;
  }
}

/**
 * One connection as this process knows it: the response descriptor under its number, the requests that it brings one after
 * another, and the socket that node:http sees.
 */
class Link {
  constructor(channel, number, writer) {
    this.channel = channel;
    this.number = number;
    this.writer = writer;
    this.queue = [];
    this.current = null;
    this.client = null;
    /** How many requests the client's socket has brought. */
    this.requests = 0;
    /** Whether the last request came to node:http with `Connection: close`. */
    this.closing = false;
    this.metaText = '';
    this.meta = NO_META;
    this.fields = new Fields();
    /** Requests come before those before them are answered: what is left to Maitred would be overtaken by the next response. */
    this.inOrder = false;
    this.retired = false;
    this.detached = false;
    this.bodyRest = 0;
    /** What node:http reads behind a body that is streamed. */
    this.bodyEnd = null;
    this.streams = false;
  }

  /** Whether a request is under way, or node:http has not left its response yet. */
  get busy() {
    return this.current !== null || (this.client !== null && !this.client.isParsed && Boolean(this.client._httpMessage));
  }

  /** The socket itself, once it is the application's own. */
  get own() {
    return this.detached && !this.writer.closed ? this.writer.socket : null;
  }

  /** Bytes that wait for the client. */
  get queued() {
    return this.writer.queued;
  }

  /** A request; it waits for those before it. */
  take(frame, now) {
    if (!this.busy) return this.begin(frame, now);
    this.inOrder = true;
    this.queue.push(frame);
    return undefined;
  }

  begin(frame, now) {
    const before = this.meta;
    const { text } = frame;
    this.readMeta(frame, text);
    const exchange = new Exchange(this, frame, this.meta, now);
    const { serving } = this.channel;
    this.current = exchange;
    this.requests += 1;
    if (this.client && this.isStale(before, frame)) this.dropClient();
    if (!this.client) {
      this.client = new ClientSocket(this);
      this.requests = 1;
      serving.connect(this.client);
    }
    const { client } = this;
    client.meta = this.meta;
    client._unrefTimer();
    client.received += text.length - frame.metaBytes + frame.bodyBytes;
    this.closing = !(frame.flags & FLAG.KEEP);
    if (serving.requests.offer(this, exchange, frame, text, frame.metaBytes)) return;
    client.received -= text.length - frame.metaBytes + frame.bodyBytes;
    serving.requests.parse(client);
    this.feed(frame);
  }

  /**
   * Whether the application needs another socket. A relay brings requests of several clients: what was left on the socket of
   * one is not another's, and an upgrade finds a new one. Listeners of a socket are never too many. After `Connection: close`
   * the parser of node:http takes nothing more, although a response with `Connection: keep-alive` has kept the socket open.
   */
  isStale(before, frame) {
    if (this.closing || this.requests > SOCKET_REQUESTS_MAX) return true;
    return before !== this.meta && (Boolean(frame.flags & FLAG.MAY_DETACH) || this.client.isTouched);
  }

  /** The application's socket is closed; the connection is not. */
  dropClient() {
    const { client } = this;
    this.client = null;
    client.destroy();
  }

  /** `text` begins with the meta; its last line, if that is `queue_us`, is another one each time. */
  readMeta(frame, text) {
    const bytes = frame.metaBytes;
    const at = this.metaText.length;
    if (at > 0 && text.slice(0, at) === this.metaText) {
      if (at === bytes || (text.startsWith(QUEUE, at) && text.indexOf('\n', at) === bytes - 1)) return;
    }
    const queue = text.lastIndexOf(`\n${QUEUE}`, bytes - 1);
    const lasting = text.slice(0, queue < 0 ? bytes : queue + 1);
    this.meta = this.channel.metaOf(lasting, frame);
    this.metaText = lasting;
  }

  /** Whether a response that is there as a whole can leave with others. */
  get mayJoin() {
    const exchange = this.current;
    return exchange !== null && !this.inOrder && !exchange.waiting && !exchange.upgrade && exchange.file === null &&
      exchange.isFresh && this.channel.joins;
  }

  /** The same as `send` for what is a whole response; false if it is none, or not to leave with others. */
  join(held) {
    const exchange = this.current;
    if (!this.mayJoin) return false;
    const whole = wholeOf(held, exchange.flags, exchange.meta);
    if (whole === null) return false;
    this.client._unrefTimer();
    this.count(whole.bytes);
    exchange.status = whole.status;
    exchange.bodyBytes = whole.rest;
    exchange.written = true;
    this.channel.join(this.number, exchange.number, whole);
    this.finish(exchange, OUTCOME.CLEAN);
    return true;
  }

  /** Gives node:http the request, so that it does with the connection what Maitred has decided. */
  feed(frame) {
    const { flags, body } = frame;
    let { head } = frame;
    if (flags & FLAG.MAY_DETACH) return this.feedUpgrade(frame);
    if (flags & FLAG.BODY_STREAM) this.expectBody(head);
    let fields = (flags & FLAG.KEEP ? '' : 'connection: close\r\n') ||
      (flags & FLAG.HTTP10 ? 'connection: keep-alive\r\n' : '');
    // A body of unknown length comes in chunks, which node:http reads.
    if (this.bodyRest === Infinity) fields += 'transfer-encoding: chunked\r\n';
    // The version is that of the client: what may be sent depends on it.
    if (flags & FLAG.HTTP10) head[head.indexOf(13) - 1] = 48;
    else if (frame.trailers) return this.feedChunks(frame, fields);
    if (fields === '') {
      // Head and body stand behind one another in the frame.
      this.push(body.length ? frame.data.subarray(frame.headAt, frame.end) : head);
      return undefined;
    }
    head = Buffer.concat([head.subarray(0, head.length - 2), Buffer.from(`${fields}\r\n`), body]);
    this.push(head);
    return undefined;
  }

  /** With trailers, which no client of HTTP/1.0 has. */
  feedChunks({ head, body, trailers }, fields) {
    const { start, end } = inChunks(head, trailers, fields);
    if (this.bodyRest > 0) this.bodyEnd = end;
    this.push(this.bodyRest > 0 ? start : Buffer.concat([start, body, end]));
  }

  feedUpgrade({ flags, head, body }) {
    const text = head.latin1Slice();
    if (this.channel.serving.server.listenerCount('upgrade') > 0 && !H2C.test(text)) {
      this.current.upgrade = true;
      this.client.upgrading = true;
      // What came behind the head belongs to the new protocol.
      this.push(Buffer.concat([head, body]));
      return;
    }
    const close = flags & FLAG.KEEP ? '' : 'connection: close\r\n';
    this.push(Buffer.from(`${text.replace(UPGRADE_LINES, '').slice(0, -2)}${close}\r\n`, 'latin1'));
  }

  push(data) {
    this.client.received += data.length;
    this.client._unrefTimer();
    return this.client.push(data);
  }

  /**
   * The body follows on the response descriptor, and is read as node:http asks for it, which sees the end of one without a length
   * by itself.
   */
  expectBody(head) {
    const length = CONTENT_LENGTH.exec(head.latin1Slice());
    this.bodyRest = length ? Number(length[1]) : Infinity;
    if (this.streams || this.bodyRest === 0) return;
    this.streams = true;
    const { socket } = this.writer;
    socket.on('data', (data) => {
      this.bodyRest -= data.length;
      if (!this.client || !this.push(data)) socket.pause();
      if (this.client && this.bodyEnd && this.bodyRest <= 0) this.push(this.bodyEnd);
    });
    socket.on('end', () => { if (this.bodyRest > 0 && !this.current?.incoming?.complete) this.client?.destroy(); });
  }

  /** node:http, or the owner of a detached connection, wants to read. */
  resume() {
    if (this.detached || (this.streams && this.bodyRest > 0)) this.writer.socket.resume();
  }

  /** What node:http has written; `callback` is called when there is room for more. */
  send(chunks, callback) {
    const exchange = this.current;
    if (this.detached) return this.writeDetached(chunks, callback);
    if (!exchange) return void callback();
    const pieces = [];
    let bytes = 0;
    startOver();
    try {
      for (const { chunk, encoding } of chunks) {
        const data = exchange.response.feed(chunk, encoding);
        if (data.length) pieces.push(data);
        bytes += data.length;
      }
    } catch (error) {
      return this.refuse(exchange, error, callback);
    }
    const { named } = exchange.response;
    if (named !== null) return void this.openNamed(exchange, named, callback);
    const { file } = exchange;
    if (file && exchange.response.rest === file.length) return this.passFile(exchange, pieces, callback);
    if (bytes === 0) return void this.afterWrite(exchange, callback);
    return this.write(exchange, bytes < 16384 && pieces.length > 1 ? [Buffer.concat(pieces, bytes)] : pieces, bytes, callback);
  }

  write(exchange, pieces, bytes, callback) {
    let rest;
    this.count(bytes);
    try {
      rest = this.writer.attempt(pieces, bytes);
    } catch (error) {
      return this.lose(exchange, error, callback);
    }
    if (exchange.response.begun && (rest === null || rest.length < bytes)) exchange.written = true;
    if (rest === null) return this.afterWrite(exchange, callback);
    if (!exchange.response.complete) return this.wait(exchange, kept(rest), () => this.afterWrite(exchange, callback), callback);
    const inTail = Math.min(rest.length, TAIL_TOTAL_BYTES_MAX);
    let tail = rest.subarray(rest.length - inTail);
    const leave = () => {
      exchange.written = true;
      this.channel.tail(this.number, exchange.number, tail);
      this.afterWrite(exchange, callback);
    };
    if (inTail === rest.length) return leave();
    // More than Maitred keeps: the client has to take that first.
    const all = kept(rest);
    tail = all.subarray(all.length - inTail);
    return this.wait(exchange, all.subarray(0, all.length - inTail), leave, callback);
  }

  /** What the application's socket says that it has written. */
  count(bytes) {
    if (this.client) this.client.dispatched += bytes;
  }

  /** X-Sendfile: the head waits for the size of the file. */
  openNamed(exchange, path, callback) {
    const fail = (error) => {
      if (exchange.done) callback();
      else this.refuse(exchange, new BadResponse(`X-Sendfile: ${error.message}`), callback);
    };
    const send = async () => {
      const part = await openBelow(exchange.meta.sendfileRoot, path);
      try {
        const head = exchange.response.sized(part.length);
        if (exchange.done || exchange.response.complete) return [head];
        if (!part.isSmall) {
          exchange.file = part;
          return [head];
        }
        const bytes = await part.read();
        exchange.response.passed();
        return [head, bytes];
      } finally {
        if (exchange.file !== part) part.close();
      }
    };
    send().then((pieces) => {
      if (exchange.done) return void callback();
      if (exchange.file) return this.passFile(exchange, pieces, callback);
      return this.write(exchange, pieces, pieces.reduce((sum, { length }) => sum + length, 0), callback);
    }, fail);
  }

  /** Writes what comes before the body, which Maitred reads from a file. */
  passFile(exchange, pieces, callback) {
    const { file } = exchange;
    exchange.file = null;
    let rest;
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    this.count(bytes + file.length);
    try {
      rest = this.writer.attempt(pieces, bytes);
    } catch (error) {
      file.close();
      return this.lose(exchange, error, callback);
    }
    exchange.written = true;
    if (rest) this.channel.tail(this.number, exchange.number, rest);
    try {
      this.channel.tailFile(this.number, exchange.number, file);
      file.take();
    } catch (error) {
      file.close();
      console.error(error.message);
      return this.lose(exchange, error, callback);
    }
    exchange.response.passed();
    return void callback();
  }

  wait(exchange, data, then, callback) {
    exchange.waiting = true;
    exchange.written = true;
    if (this.client) this.client.queuedAtTimeout = data.length;
    this.writer.wait(data, (error) => {
      exchange.waiting = false;
      if (error) return this.lose(exchange, error, callback);
      // An informational response is out as a whole: the final one is still to come.
      exchange.written = exchange.response.begun;
      return exchange.done ? callback() : then();
    });
  }

  afterWrite(exchange, callback) {
    if (exchange.response.upgraded && !this.detached && !exchange.done) this.detach(exchange);
    // With X-Sendfile the application may still write a body that is dropped; `finished` says when it does not.
    else if (exchange.response.complete && !exchange.response.isNamed) this.finish(exchange, OUTCOME.CLEAN);
    callback();
  }

  /** The client, or Maitred, has closed the connection. */
  lose(exchange, error, callback) {
    this.finish(exchange, OUTCOME.BROKEN);
    callback(error);
  }

  /** The application's response cannot be sent as it is. */
  refuse(exchange, error, callback) {
    console.error(`maitred: bad response of the application: ${error.message}`);
    if (!exchange.written) {
      exchange.judged = null;
      const head = `HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nContent-Length: ${FAILURE.length}`;
      const data = exchange.response.feed(`${head}\r\n\r\n${FAILURE}`, 'latin1');
      return this.write(exchange, [data], data.length, () => callback(error));
    }
    return this.lose(exchange, error, callback);
  }

  /** The application says that the response is all there. */
  finished(exchange) {
    if (exchange.done || this.current !== exchange) return;
    const { complete, endsWithConnection: ends } = exchange.response;
    if (complete) return this.finish(exchange, OUTCOME.CLEAN);
    if (!ends) console.error('maitred: the response is shorter than was stated');
    this.finish(exchange, ends ? OUTCOME.CLOSE : OUTCOME.BROKEN);
    if (!ends && this.client) this.client.destroy();
    return undefined;
  }

  /** Reports the request that is under way, and goes on with the next. */
  finish(exchange, outcome) {
    if (exchange.done) return;
    exchange.done = true;
    exchange.dropFile();
    const { judged } = exchange;
    const whole = exchange.status !== 0 || judged === null;
    const status = exchange.written ? exchange.status || judged?.status || judged?.informed || 0 : 0;
    const serviceUs = Math.round((performance.now() - exchange.began) * 1000);
    const bodyBytes = whole ? exchange.bodyBytes : judged.bodyBytes;
    this.channel.done(this.number, exchange.number, status ? outcome : OUTCOME.BROKEN, status, serviceUs, bodyBytes);
    this.current = null;
    if (this.queue.length) this.goOn();
    else if (this.retired) this.close();
  }

  /** Has the next request begin, if one waits. */
  goOn() {
    if (this.queue.length) setImmediate(() => this.next());
  }

  next() {
    if (this.busy) return;
    const frame = this.queue.shift();
    if (frame) this.begin(frame, performance.now());
    else if (this.retired) this.close();
  }

  /** The client has gone: to node:http it looks as if its connection had closed. */
  cancel(request) {
    if (this.current && this.current.number === request) {
      if (this.client) this.client.destroy();
      return;
    }
    const at = this.queue.findIndex((frame) => frame.request === request);
    if (at < 0) return;
    this.queue.splice(at, 1);
    this.channel.done(this.number, request, OUTCOME.BROKEN, 0, 0, 0);
  }

  /** No more requests come; what is under way is finished first. */
  retire() {
    this.retired = true;
    if (!this.current && this.queue.length === 0) this.close();
  }

  close() {
    if (this.client) this.client.destroy();
    this.writer.close();
  }

  /** The channel is lost. Its descriptor is closed before anything else can have its number. */
  abandon() {
    this.queue = [];
    this.retired = true;
    this.close();
  }

  /** node:http, or the application, has given its socket up. */
  onDestroyed(client) {
    if (this.client !== client) return;
    this.client = null;
    if (this.detached) {
      this.channel.release(this);
      this.writer.close();
      return;
    }
    const exchange = this.current;
    if (!exchange) return;
    // What libuv holds cannot be taken back; a response that is aborted costs the connection anyway.
    if (exchange.waiting) this.writer.close();
    // A refused upgrade: to end the connection behind the head is how that is mostly written.
    const refused = exchange.upgrade && !exchange.waiting && exchange.response.endsWithConnection;
    this.finish(exchange, refused ? OUTCOME.CLOSE : OUTCOME.BROKEN);
  }

  /** The owner of a detached connection wants its client to see a reset. */
  reset() {
    const { own } = this;
    if (!own || own.destroyed) return;
    try {
      own.resetAndDestroy();
    } catch {
      // A relay is no TCP connection, and has no reset.
    }
  }

  /** The application ends its side: of a connection only if it is its own. */
  onEnd(callback) {
    if (!this.detached) {
      const exchange = this.current;
      if (exchange && !exchange.waiting && exchange.response.endsWithConnection) this.finish(exchange, OUTCOME.CLOSE);
      callback();
      // Of an upgrade that was refused, the application gets the end of its socket.
      if (this.client?.upgrading) setImmediate((client) => { if (!client.destroyed) client.pushEnd(); }, this.client);
      return undefined;
    }
    if (this.writer.closed) return void callback();
    this.writer.socket.end(callback);
    return undefined;
  }

  /** The upgrade is answered: the connection is the application's own from now on. */
  detach(exchange) {
    exchange.done = true;
    this.current = null;
    this.detached = true;
    this.channel.detach(this, exchange.number);
    const { socket } = this.writer;
    this.client?.applyOptions(socket);
    socket.on('data', (data) => { if (this.client && !this.push(data)) socket.pause(); });
    socket.on('end', () => this.onDetachedEnd());
    socket.on('error', (error) => { if (this.client) this.client.destroy(error); });
    socket.on('close', () => { if (this.client) this.client.destroy(); });
    socket.resume();
  }

  /** The client has ended its side, or is gone altogether: a relay shows the latter only to a write. */
  onDetachedEnd() {
    if (!this.client) return;
    if (this.client.writableEnded || this.writer.isHalfOpen) this.client.pushEnd();
    else this.client.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' }));
  }

  writeDetached(chunks, callback) {
    const pieces = chunks.map(({ chunk, encoding }) => (typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk));
    const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (bytes === 0) return void callback();
    let rest;
    this.count(bytes);
    try {
      rest = this.writer.attempt(pieces, bytes);
    } catch (error) {
      return void callback(error);
    }
    if (rest === null) return void callback();
    if (this.client) this.client.queuedAtTimeout = rest.length;
    return void this.writer.wait(rest, callback);
  }
}

module.exports = { Link, parseMeta };
