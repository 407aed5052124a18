'use strict';
// What node:http writes for one response, judged and put into the protocol's form (PROTOCOL.md, section 5): fields that
// concern the connection are Maitred's, informational responses go to clients that may have them, never more body than was
// stated. It also tells how far the response is, which DONE reports.

const { debuglog } = require('node:util');

const { FLAG, TRAILERS_MAX, TRAILER_BYTES_MAX } = require('./frames');
const { encoded } = require('./texts');

/** `NODE_DEBUG=maitred` shows it. */
const debug = debuglog('maitred');
const HOP = /\r\n(connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade) *:([^\r\n]*)/gi;
/** What node:http writes by itself when it frames a response. */
const FRAMING = 'transfer-encoding';
/** Fields that the framing of a response needs, whatever `Connection` says of them. */
const KEPT = new Set(['content-length', 'date', 'server']);
const LENGTH = /\r\ncontent-length *: *([^\r\n]*)/i;
const LENGTHS = /\r\ncontent-length *:[^\r\n]*/gi;
const CODING = /\r\ntransfer-encoding *: *([^\r\n]*)/i;
/** The test of node:http, which has written chunks if it holds. */
const CHUNKED = /(?:^|\W)chunked(?:$|\W)/i;
const UPGRADE = /\r\nupgrade *:[^\r\n]*/i;
const NAMED = /\r\nx-sendfile *: *([^\r\n]*)/i;
const NAMES = /\r\nx-sendfile *:[^\r\n]*/gi;
const SERVER = /\r\nserver *:/i;
const DATE = /\r\ndate *:/i;
const ANNOUNCED = /\r\ntrailer *:[^\r\n]*/gi;
const FIELD = /^[!#$%&'*+.^_`|~\w-]+:[^\0\r\n]*$/;
/** Fields that mean something else, or nothing, behind content (RFC 9110, 6.5.1): those of the crate maitred-handoff. */
const NOT_IN_TRAILERS = new Set([
  'connection', 'content-length', 'host', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade',
  'authentication-info', 'authorization', 'cookie', 'forwarded', 'proxy-authenticate', 'proxy-authentication-info',
  'proxy-authorization', 'set-cookie', 'www-authenticate', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto',
  'cache-control', 'expect', 'if-match', 'if-modified-since', 'if-none-match', 'if-range', 'if-unmodified-since',
  'max-forwards', 'pragma', 'priority', 'range',
  'age', 'date', 'expires', 'location', 'retry-after', 'vary', 'warning',
  'content-disposition', 'content-encoding', 'content-language', 'content-location', 'content-range', 'content-type',
]);
const INFORMATIONAL = /^HTTP\/1\.1 1\d\d[^\0\r\n]*(?:\r\n[!#$%&'*+.^_`|~\w-]+:[^\0\r\n]*)*$/;
/** Bytes of a response head; node:http bounds only those that it reads. */
const HEAD_BYTES_MAX = 256 * 1024;
/** Bytes of one informational response, and how many there may be before the final one. */
const INFORMATIONAL_BYTES_MAX = 16 * 1024;
const INFORMATIONAL_MAX = 16;
const EMPTY = Buffer.alloc(0);

/** The application's response cannot be sent. */
class BadResponse extends Error {}

const dropped = new Set();

/** Says once per name that a field of the application was dropped. */
function drop(name) {
  if (dropped.has(name)) return;
  dropped.add(name);
  debug('the field %s concerns the connection, which is Maitred\'s: it is dropped', name);
}

/** A head without the fields that concern the connection, and without those that `Connection` names. */
function withoutHop(head, keepsTrailer = false) {
  const named = [];
  const ours = head.replace(HOP, (line, field, value) => {
    const name = field.toLowerCase();
    if (keepsTrailer && name === 'trailer') return line;
    if (name === 'connection') named.push(...value.toLowerCase().split(',').map((token) => token.trim()));
    if (name !== FRAMING || !/^ *chunked *$/i.test(value)) drop(name);
    return '';
  });
  const extra = named.filter((name) => /^[\w-]+$/.test(name) && !KEPT.has(name));
  if (!extra.some((name) => name !== 'close' && name !== 'keep-alive' && name !== 'upgrade')) return ours;
  return ours.replace(new RegExp(`\\r\\n(${extra.join('|')}) *:[^\\r\\n]*`, 'gi'), (_, name) => {
    drop(name.toLowerCase());
    return '';
  });
}

/** Follows the chunks of a body, to count its bytes and to see its end. */
class Chunks {
  constructor() {
    this.line = '';
    this.rest = 0;
    this.state = 'size';
    this.bodyBytes = 0;
    this.complete = false;
    /** Fields behind the last chunk that may stand there, and where in the data that was fed last they begin. */
    this.trailers = [];
    this.trailerBytes = 0;
    this.hasTrailers = false;
    this.trailersAt = Infinity;
  }

  /** Returns how much of `data` belongs to the response. `take` gets what is the body of it. */
  feed(data, take = null) {
    let at = 0;
    this.trailersAt = this.state === 'trailers' ? 0 : Infinity;
    while (at < data.length && !this.complete) {
      const from = at;
      const isBody = this.state === 'data';
      at = isBody ? this.data(data, at) : this.text(data, at);
      if (isBody && take) take(data.subarray(from, at));
    }
    return at;
  }

  data(data, at) {
    const taken = Math.min(this.rest, data.length - at);
    this.rest -= taken;
    if (this.rest === 0) this.state = 'end of data';
    return at + taken;
  }

  text(data, at) {
    const end = data.indexOf(10, at);
    const stop = end < 0 ? data.length : end + 1;
    this.line += data.latin1Slice(at, stop);
    if (end < 0) return stop;
    const line = this.line.trim();
    this.line = '';
    if (this.state === 'size') {
      this.rest = parseInt(line, 16);
      this.bodyBytes += this.rest;
      this.state = this.rest === 0 ? 'trailers' : 'data';
      if (this.rest === 0) this.trailersAt = stop;
    } else if (this.state === 'end of data') {
      this.state = 'size';
    } else if (line === '') {
      this.complete = true;
    } else {
      this.trailer(line);
    }
    return stop;
  }

  trailer(line) {
    this.hasTrailers = true;
    const name = line.slice(0, Math.max(0, line.indexOf(':'))).toLowerCase();
    if (!FIELD.test(line) || NOT_IN_TRAILERS.has(name)) {
      debug('the trailer %s may not be one: it is dropped', name);
      return;
    }
    this.trailerBytes += line.length + 2;
    if (this.trailers.length <= TRAILERS_MAX) this.trailers.push(line);
  }

  /** What follows the last chunk, as it is sent; `taken`: whether the client takes trailers. Too many are not sent at all. */
  end(taken) {
    const fit = this.trailers.length <= TRAILERS_MAX && this.trailerBytes <= TRAILER_BYTES_MAX;
    if (!fit) debug('%d bytes of trailers are too many: they are dropped', this.trailerBytes);
    return Buffer.from([...(taken && fit ? this.trailers : []), '', ''].join('\r\n'), 'latin1');
  }
}

class Response {
  /**
   * `flags` are those of the REQUEST; of its meta, whether there may be informational responses and trailers, whether the client
   * has to be asked for the body, where named files lie, and whether a server is named where the application names none.
   */
  constructor(
    flags,
    { earlyHints = false, trailers = false, continues = false, sendfileRoot = null, serverHeader = true } = {},
  ) {
    this.flags = flags;
    this.earlyHints = earlyHints;
    this.continues = continues;
    this.takesTrailers = trailers;
    this.sendfileRoot = sendfileRoot;
    this.serverHeader = serverHeader;
    /** The status of the last informational response, and how many there were. */
    this.informed = 0;
    this.informations = 0;
    this.status = 0;
    this.mode = 'head';
    this.head = '';
    this.rest = 0;
    this.sent = 0;
    this.chunks = null;
    /** Every byte that belongs to the response has been fed. */
    this.complete = false;
    /** The new protocol begins behind this head. */
    this.upgraded = false;
    /** The file that is the body, as the application named it; its size has to be said before the head is sent. */
    this.named = null;
    this.unsized = '';
    /** The status is 426, and says to which protocol. */
    this.upgradeRequired = false;
  }

  get bodyBytes() {
    return this.chunks ? this.chunks.bodyBytes : this.sent;
  }

  /** Whether the final head is there. */
  get begun() {
    return this.mode !== 'head';
  }

  /** Whether only the end of the connection ends the response. */
  get endsWithConnection() {
    return this.mode === 'close';
  }

  /** Whether the body is a file that the application has named. */
  get isNamed() {
    return this.mode === 'file';
  }

  /** Whether nothing of the final response has been fed. */
  get isFresh() {
    return this.mode === 'head' && this.head === '';
  }

  /** Takes what was written, and returns what is to be sent of it: of a text, only until `startOver` (texts.js) is called. */
  feed(chunk, encoding) {
    if (this.mode === 'head') return this.feedHead(chunk, encoding);
    return this.body(typeof chunk === 'string' ? encoded(chunk, encoding) : chunk);
  }

  feedHead(chunk, encoding) {
    const text = typeof chunk === 'string' ? chunk : chunk.latin1Slice();
    const coding = typeof chunk === 'string' ? encoding : 'latin1';
    this.head += text;
    const end = this.head.indexOf('\r\n\r\n');
    if (end < 0) {
      if (this.head.length > HEAD_BYTES_MAX) throw new BadResponse('a head without an end');
      return EMPTY;
    }
    const head = this.head.slice(0, end);
    const rest = this.head.slice(end + 4);
    this.head = '';
    const status = Number(head.slice(9, 12));
    if (!head.startsWith('HTTP/1.1 ') || !(status >= 100 && status <= 999)) throw new BadResponse('no status line');
    if (status < 200 && status !== 101) {
      const first = this.inform(status, head);
      if (rest === '') return first;
      const second = this.feedHead(rest, coding);
      return first.length ? Buffer.concat([first, second]) : second;
    }
    const ours = this.judge(status, head);
    if (rest === '') return Buffer.from(ours, coding);
    if (this.mode === 'length' && Buffer.byteLength(rest, coding) === this.rest) {
      // The usual case: a head and all of a small body.
      this.sent = this.rest;
      this.rest = 0;
      this.complete = true;
      return Buffer.from(ours + rest, coding);
    }
    return Buffer.concat([Buffer.from(ours, coding), this.body(Buffer.from(rest, coding))]);
  }

  /** An informational response, as it is sent: as nothing if the client may not have it. */
  inform(status, head) {
    if (status === 100 && this.continues) {
      this.continues = false;
      return Buffer.from('HTTP/1.1 100 Continue\r\n\r\n');
    }
    if (!this.earlyHints || status === 100 || this.informations >= INFORMATIONAL_MAX) return EMPTY;
    if (head.length > INFORMATIONAL_BYTES_MAX || !INFORMATIONAL.test(head)) {
      debug('an informational response of status %d is too large, or no head: it is dropped', status);
      return EMPTY;
    }
    this.informed = status;
    this.informations += 1;
    return Buffer.from(`${withoutHop(head).replace(LENGTHS, '')}\r\n\r\n`, 'latin1');
  }

  /** Decides the framing, and returns the head as it is sent. */
  judge(status, head) {
    this.status = status;
    if (status === 101) {
      if (!(this.flags & FLAG.MAY_DETACH)) throw new BadResponse('an upgrade that the client did not ask for');
      this.upgraded = true;
      this.mode = 'upgraded';
      return `${head}\r\n\r\n`;
    }
    const coding = CODING.exec(head);
    const length = LENGTH.exec(head);
    const isChunked = coding !== null && CHUNKED.test(coding[1]);
    const bodiless = this.flags & FLAG.HEAD || status === 204 || status === 304;
    let ours = withoutHop(head, this.takesTrailers && isChunked && !bodiless && !(this.flags & FLAG.HTTP10));
    const upgrade = status === 426 && UPGRADE.exec(head);
    if (upgrade) ours += upgrade[0];
    this.upgradeRequired = Boolean(upgrade);
    const named = this.sendfileRoot === null ? null : NAMED.exec(ours);
    if (named) ours = ours.replace(NAMES, '');
    if (named && named[1] !== '' && status !== 204 && status !== 304) {
      this.mode = 'file';
      this.named = named[1].trimEnd();
      this.unsized = ours.replace(LENGTHS, '').replace(ANNOUNCED, '');
      return '';
    }
    if (bodiless) {
      this.mode = 'none';
      this.complete = true;
      if (status === 204) ours = ours.replace(LENGTHS, '');
    } else if (isChunked) {
      // node:http writes chunks to any client if the application has asked for them by the field.
      const known = !(this.flags & FLAG.HTTP10);
      this.mode = known ? 'chunked' : 'close';
      this.chunks = new Chunks();
      ours = `${ours.replace(LENGTHS, '')}${known ? '\r\nTransfer-Encoding: chunked' : ''}`;
    } else if (length) {
      if (!/^\d{1,15}$/.test(length[1].trim())) throw new BadResponse(`Content-Length: ${length[1]}`);
      this.mode = 'length';
      this.rest = Number(length[1]);
      this.complete = this.rest === 0;
    } else {
      this.mode = 'close';
    }
    return this.completed(ours);
  }

  /** The head with what it has to have. */
  completed(head) {
    let ours = head;
    if (this.serverHeader && !SERVER.test(ours)) ours += '\r\nServer: maitred';
    if (!DATE.test(ours)) ours += `\r\nDate: ${new Date().toUTCString()}`;
    const options = [];
    if (!(this.flags & FLAG.KEEP) || this.mode === 'close') options.push('close');
    else if (this.flags & FLAG.HTTP10) options.push('keep-alive');
    if (this.upgradeRequired) options.push('upgrade');
    if (options.length) ours += `\r\nConnection: ${options.join(', ')}`;
    return `${ours}\r\n\r\n`;
  }

  /** The head of a response whose body is a file of so many bytes. What the application writes itself is dropped. */
  sized(bytes) {
    this.named = null;
    this.rest = this.flags & FLAG.HEAD ? 0 : bytes;
    this.complete = this.rest === 0;
    return Buffer.from(this.completed(`${this.unsized}\r\nContent-Length: ${bytes}`), 'latin1');
  }

  /** What is left of the body is passed as a file. */
  passed() {
    this.sent += this.rest;
    this.rest = 0;
    this.complete = true;
  }

  /** Chunks as they are, and trailers once they are there as a whole. */
  inChunks(data) {
    const taken = this.chunks.feed(data);
    this.complete = this.chunks.complete;
    const { trailersAt, hasTrailers } = this.chunks;
    const atOnce = this.complete && !hasTrailers && trailersAt > 0;
    if (trailersAt > taken || atOnce) return taken === data.length ? data : data.subarray(0, taken);
    const chunks = data.subarray(0, trailersAt);
    return this.complete ? Buffer.concat([chunks, this.chunks.end(this.takesTrailers)]) : chunks;
  }

  counted(data) {
    this.sent += data.length;
    return data;
  }

  withoutChunks(data) {
    const pieces = [];
    this.chunks.feed(data, (piece) => pieces.push(piece));
    return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
  }

  body(data) {
    switch (this.mode) {
      case 'length': {
        const taken = data.length <= this.rest ? data : data.subarray(0, this.rest);
        this.rest -= taken.length;
        this.sent += taken.length;
        this.complete = this.rest === 0;
        return taken;
      }
      case 'chunked':
        return this.inChunks(data);
      case 'close':
        return this.chunks ? this.withoutChunks(data) : this.counted(data);
      case 'upgraded':
        return data;
      default:
        return EMPTY;
    }
  }
}

module.exports = { BadResponse, Response };
