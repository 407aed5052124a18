'use strict';

const fs = require('node:fs');
const net = require('node:net');
const { performance } = require('node:perf_hooks');

const frames = require('./frames');
const { channelHandle, fileHandle, writeWith } = require('./handles');
const { Link, parseMeta } = require('./link');
const { Outbox } = require('./outbox');
const { Writer, restsOf } = require('./writer');

const { KIND } = frames;
const RECEIVE_BYTES = 256 * 1024;
/** How long a DONE may wait for company, in milliseconds. */
const DONE_WAIT_MS = 1;
/** What has waited longer, because listeners of the application took long, is a reason to have no response wait for a while. */
const LATE_MS = 4;
/** How many requests that while is. */
const LATE_REQUESTS = 100;
/** Metas that are remembered: a relay brings requests of one client after another. */
const METAS_MAX = 1024;
/** Bytes that wait to be sent, beyond which responses are written by themselves. */
const JOINED_BYTES_MAX = 1024 * 1024;
/** How long detached connections have to end in the way of their protocol, in milliseconds. */
const DETACHED_END_MS = 3000;

/** Connections that their applications have taken over: they stay open when the channel that has brought them ends. */
class Detached extends Set {
  constructor() {
    super();
    this.onGone = null;
  }

  release(link) {
    this.delete(link);
    if (this.size === 0 && this.onGone) this.onGone();
  }

  /** Resolves when none is left, or when they have had their time. */
  end() {
    return new Promise((resolve) => {
      if (this.size === 0) return void resolve();
      const timer = setTimeout(resolve, DETACHED_END_MS);
      this.onGone = () => {
        clearTimeout(timer);
        resolve();
      };
      return undefined;
    });
  }
}

/** How many files this process may have open; 0 if that is not known. */
function openFiles() {
  try {
    const [, soft] = /^Max open files\s+(\d+|unlimited)/m.exec(fs.readFileSync('/proc/self/limits', 'latin1'));
    return soft === 'unlimited' ? Infinity : Number(soft);
  } catch {
    // Without /proc, Maitred goes by its configuration.
    return 0;
  }
}

/** Maitred's other end: what comes from there, and what is reported. */
class Channel {
  /**
   * `serving` is the server that gets the requests; `ended` is called when everything is answered; `lost`, if there may be
   * another channel, when this one has ended without a word. `detached` are the connections, of all channels, that were taken
   * over.
   */
  constructor(fd, serving, { capacity, name, ended, lost = null, detached = new Detached() }) {
    this.fd = fd;
    this.serving = serving;
    this.ended = ended;
    this.lost = lost;
    this.links = new Map();
    this.detached = detached;
    this.metas = new Map();
    this.underWay = 0;
    this.received = [];
    this.welcomed = false;
    this.ending = false;
    this.heard = false;
    this.out = new Outbox();
    this.files = [];
    this.onFlushed = null;
    this.outSince = 0;
    /** How many times in a row something has waited too long. */
    this.waits = 0;
    /** For how many requests more responses do not wait for the end of the turn. */
    this.late = 0;
    this.flushing = false;
    this.finishing = false;
    this.leaving = false;
    this.abandoned = false;
    this.decoder = new frames.Decoder((frame) => this.onFrame(frame));
    this.handle = channelHandle(fd);
    this.socket = new net.Socket({
      handle: this.handle,
      allowHalfOpen: true,
      onread: {
        buffer: Buffer.allocUnsafeSlow(RECEIVE_BYTES),
        callback: (bytes, buffer) => this.onBytes(bytes, buffer),
      },
    });
    this.socket.on('end', () => this.onEnd());
    this.socket.on('error', () => this.onEnd());
    this.say(frames.hello(capacity, name, lost !== null));
    const files = openFiles();
    if (files) this.say(frames.limits(files));
    this.say(frames.streams());
    this.flush();
  }

  onBytes(bytes, buffer) {
    this.heard = true;
    const handle = this.handle.pendingHandle;
    if (handle) {
      this.handle.pendingHandle = undefined;
      this.received.push(handle);
    }
    if (this.ending) return true;
    try {
      this.decoder.add(Buffer.from(buffer.subarray(0, bytes)));
    } catch (error) {
      this.onError(error);
    }
    return true;
  }

  onError(error) {
    if (!(error instanceof frames.Violation)) {
      // A listener has thrown. If the application has the process go on, so do the other requests.
      setImmediate(() => this.goOn());
      throw error;
    }
    fs.writeSync(2, `maitred: Maitred broke the protocol: ${error.message}\n`);
    process.exit(1);
  }

  goOn() {
    try {
      if (!this.ending) this.decoder.resume();
    } catch (error) {
      this.onError(error);
    }
  }

  onFrame(frame) {
    if (frame.descriptors > this.received.length) frames.refuse('a frame whose descriptor did not come');
    const handles = frame.descriptors ? this.received.splice(0, frame.descriptors) : [];
    if (!this.welcomed) {
      if (frame.kind !== KIND.WELCOME) frames.refuse('something else than WELCOME first');
      this.decoder.payloadMax = frames.welcome(frame).payloadMax;
      this.welcomed = true;
      return;
    }
    if (this.ending) return;
    switch (frame.kind) {
      case KIND.REQUEST: return void this.onRequest(frame, handles);
      case KIND.FORGET: return void this.forget(frame.connection);
      case KIND.CANCEL: return void this.links.get(frame.connection)?.cancel(frame.request);
      case KIND.PING: return void this.say(frames.pong(frame.request));
      case KIND.SHUTDOWN: return void this.end();
      case KIND.WELCOME: return void frames.refuse('a second WELCOME');
      default: handles.forEach((handle) => handle.close());
    }
  }

  onRequest(frame, handles) {
    if (handles.length > 1) frames.refuse('a REQUEST with two descriptors');
    if (handles.length) {
      this.forget(frame.connection);
      this.links.set(frame.connection, new Link(this, frame.connection, new Writer(handles[0])));
    }
    const link = this.links.get(frame.connection);
    if (!link) frames.refuse(`a REQUEST of connection ${frame.connection}, which is not known`);
    if (this.decoder.repeated?.has(frame.connection)) link.inOrder = true;
    this.underWay += 1;
    const now = performance.now();
    if (this.late > 0) this.late -= 1;
    this.flushIfDue(now);
    link.take(frame, now);
  }

  /** A meta whose lines but the last, `queue_us`, are this text. */
  metaOf(text, frame) {
    let meta = this.metas.get(text);
    if (meta) return meta;
    meta = parseMeta(frame.meta.toString());
    if (this.metas.size >= METAS_MAX) this.metas.clear();
    this.metas.set(text, meta);
    return meta;
  }

  forget(connection) {
    const link = this.links.get(connection);
    this.links.delete(connection);
    link?.retire();
  }

  onEnd() {
    if (this.abandoned || this.ending) return;
    if (this.lost === null || this.leaving) this.end();
    else this.abandon();
  }

  /** The channel is lost: what runs is cancelled, and what has not begun never will. */
  abandon() {
    this.ending = true;
    this.abandoned = true;
    for (const link of this.links.values()) link.abandon();
    this.links.clear();
    for (const handle of this.received.splice(0)) handle.close();
    for (const { file } of this.files.splice(0)) file.close();
    this.out.clear();
    this.socket.destroy();
    this.lost();
  }

  done(connection, request, outcome, status, serviceUs, bodyBytes) {
    this.underWay -= 1;
    if (!this.abandoned) {
      this.speaks();
      this.out.done(connection, request, outcome, status, serviceUs, bodyBytes);
    }
    if (this.ending) this.finishIfIdle();
  }

  /**
   * Whether a whole response may wait for the end of this turn: if it has company, but not behind much, nor behind listeners that
   * take long.
   */
  get joins() {
    const waiting = this.out.bytes;
    return (this.underWay > 1 || this.decoder.requests > 1 || waiting > 0) && this.late === 0 && waiting < JOINED_BYTES_MAX &&
      this.socket.writableLength === 0 && !this.abandoned;
  }

  /** A whole response (whole.js) leaves with all others of this turn of the event loop. */
  join(connection, request, whole) {
    this.speaks();
    this.out.whole(connection, request, whole);
  }

  tail(connection, request, data) {
    // There is no reader.
    if (this.abandoned) return;
    this.speaks();
    this.out.tails(connection, request, data);
  }

  /** Passes a part of a file, and takes its descriptor over. Throws, without having done so, if that is not possible. */
  tailFile(connection, request, { fd, offset, length }) {
    this.say(frames.tailFile(connection, request, offset, length), fileHandle(fd));
  }

  detach(link, request) {
    this.underWay -= 1;
    this.detached.add(link);
    if (this.links.get(link.number) === link) this.links.delete(link.number);
    this.say(frames.detach(link.number, request));
    // Maitred may pass the number to another connection as soon as it reads this.
    this.flush();
    if (this.ending) this.finishIfIdle();
  }

  /** Has bytes leave with all others of this turn of the event loop, and the handle of a file with the first of them. */
  say(bytes, file = null) {
    // There is no reader.
    if (this.abandoned) return void file?.close();
    this.speaks();
    const at = this.out.push(bytes);
    if (file) this.files.push({ file, at });
    return undefined;
  }

  /** There is going to be something to flush. */
  speaks() {
    if (this.out.bytes === 0) this.outSince = performance.now();
    if (!this.flushing) {
      this.flushing = true;
      setImmediate(() => this.flush());
    }
  }

  /** Once is chance: the process itself may have had to wait for a processor. */
  noteWait() {
    this.waits = performance.now() - this.outSince > LATE_MS ? this.waits + 1 : 0;
    if (this.waits > 1) this.late = LATE_REQUESTS;
  }

  flushIfDue(now) {
    if (this.out.bytes > 0 && now - this.outSince >= DONE_WAIT_MS) this.flush();
  }

  flush() {
    this.flushing = false;
    if (this.out.bytes > 0) this.noteWait();
    while (this.out.bytes > 0 && this.socket.writableLength === 0 && !this.socket.destroyed) this.write();
    if (this.socket.destroyed) {
      this.files.splice(0).forEach(({ file }) => file.close());
      this.out.clear();
    }
    if (this.out.bytes === 0 && this.onFlushed) this.onFlushed();
  }

  /** Writes what waits, up to the second descriptor: one goes with the first byte of a message. */
  write() {
    this.out.seal();
    const [first, second] = this.files;
    const count = second ? second.at : this.out.pieces.length;
    const pieces = this.out.take(count);
    if (first) {
      this.files.shift();
      for (const later of this.files) later.at -= count;
      this.out.leave();
      return writeWith(this.socket, this.handle, first.file, Buffer.concat(pieces), () => {
        first.file.close();
        this.flush();
      });
    }
    let written = 0;
    try {
      written = pieces.length === 1 ? fs.writeSync(this.fd, pieces[0]) : fs.writevSync(this.fd, pieces);
    } catch (error) {
      if (error.code !== 'EAGAIN') return void this.socket.destroy(error);
    }
    if (written === pieces.reduce((sum, { length }) => sum + length, 0)) {
      this.out.giveBack(pieces);
      return void this.out.reuse();
    }
    this.out.leave();
    const rests = restsOf(pieces, written);
    this.socket.cork();
    for (const rest of rests.slice(0, -1)) this.socket.write(rest);
    this.socket.write(rests.at(-1), () => {
      this.out.giveBack(pieces);
      this.flush();
    });
    this.socket.uncork();
    return undefined;
  }

  /** Takes no more, once nothing more is there: what Maitred had sent by then is answered. */
  leave() {
    if (this.leaving) return;
    this.leaving = true;
    const quiet = () => {
      if (this.ending) return;
      if (!this.heard) return void this.end();
      this.heard = false;
      // The first turn may end before the channel was looked at; the second has looked.
      setImmediate(() => setImmediate(quiet));
    };
    this.heard = true;
    quiet();
  }

  /** Nothing more comes: what was received is answered, then the process ends. */
  end() {
    if (this.ending) return;
    this.ending = true;
    setImmediate(() => this.finishIfIdle());
  }

  finishIfIdle() {
    if (this.underWay > 0 || this.finishing || this.abandoned) return;
    this.finishing = true;
    this.onFlushed = () => {
      this.onFlushed = null;
      if (this.socket.destroyed) return void this.ended();
      return void this.socket.end(() => this.ended());
    };
    setImmediate(() => this.flush());
  }

  /** The owner of a detached connection has closed it. */
  release(link) {
    this.detached.release(link);
  }
}

module.exports = { Channel, Detached };
