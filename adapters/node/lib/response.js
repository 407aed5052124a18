'use strict';
// What node:http writes for one response, judged and put into the protocol's form (PROTOCOL.md, section 5): fields that
// concern the connection are Maitred's, no 1xx, never more body than was stated. It also tells how far the response is,
// which DONE reports.

const { FLAG } = require('./frames');

const HOP = /\r\n(?:connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade) *:[^\r\n]*/gi;
const LENGTH = /\r\ncontent-length *: *([^\r\n]*)/i;
const LENGTHS = /\r\ncontent-length *:[^\r\n]*/gi;
const CODING = /\r\ntransfer-encoding *: *([^\r\n]*)/i;
const NAMED = /\r\nx-sendfile *: *([^\r\n]*)/i;
const NAMES = /\r\nx-sendfile *:[^\r\n]*/gi;
const SERVER = /\r\nserver *:/i;
const DATE = /\r\ndate *:/i;
/** Bytes of a response head; node:http bounds only those that it reads. */
const HEAD_BYTES_MAX = 256 * 1024;
const EMPTY = Buffer.alloc(0);

/** The application's response cannot be sent. */
class BadResponse extends Error {}

/** Follows the chunks of a body, to count its bytes and to see its end. */
class Chunks {
  constructor() {
    this.line = '';
    this.rest = 0;
    this.state = 'size';
    this.bodyBytes = 0;
    this.complete = false;
  }

  /** Returns how much of `data` belongs to the response. */
  feed(data) {
    let at = 0;
    while (at < data.length && !this.complete) {
      at = this.state === 'data' ? this.data(data, at) : this.text(data, at);
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
    } else if (this.state === 'end of data') {
      this.state = 'size';
    } else if (line === '') {
      this.complete = true;
    }
    return stop;
  }
}

class Response {
  /** `flags` are those of the REQUEST. */
  constructor(flags) {
    this.flags = flags;
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
  }

  get bodyBytes() {
    return this.chunks ? this.chunks.bodyBytes : this.sent;
  }

  /** Whether only the end of the connection ends the response. */
  get endsWithConnection() {
    return this.mode === 'close';
  }

  /** Whether the body is a file that the application has named. */
  get isNamed() {
    return this.mode === 'file';
  }

  /** Takes what was written, and returns what is to be sent of it. */
  feed(chunk, encoding) {
    if (this.mode === 'head') return this.feedHead(chunk, encoding);
    const data = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
    return this.body(data);
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
    if (status < 200 && status !== 101) return rest === '' ? EMPTY : this.feedHead(rest, coding);
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

  /** Decides the framing, and returns the head as it is sent. */
  judge(status, head) {
    this.status = status;
    if (status === 101) {
      if (!(this.flags & FLAG.MAY_DETACH)) throw new BadResponse('an upgrade that nobody asked for');
      this.upgraded = true;
      this.mode = 'upgraded';
      return `${head}\r\n\r\n`;
    }
    const coding = CODING.exec(head);
    const length = LENGTH.exec(head);
    let ours = head.replace(HOP, '');
    const named = NAMED.exec(ours);
    if (named) ours = ours.replace(NAMES, '');
    if (named && named[1] !== '' && status !== 204 && status !== 304) {
      this.mode = 'file';
      this.named = named[1].trimEnd();
      this.unsized = ours.replace(LENGTHS, '');
      return '';
    }
    if (this.flags & FLAG.HEAD || status === 204 || status === 304) {
      this.mode = 'none';
      this.complete = true;
      if (status === 204) ours = ours.replace(LENGTHS, '');
    } else if (coding) {
      if (!/^chunked$/i.test(coding[1].trim())) throw new BadResponse(`Transfer-Encoding: ${coding[1]}`);
      this.mode = 'chunked';
      this.chunks = new Chunks();
      ours = `${ours.replace(LENGTHS, '')}\r\nTransfer-Encoding: chunked`;
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
    if (!SERVER.test(ours)) ours += '\r\nServer: maitred';
    if (!DATE.test(ours)) ours += `\r\nDate: ${new Date().toUTCString()}`;
    if (!(this.flags & FLAG.KEEP) || this.mode === 'close') ours += '\r\nConnection: close';
    else if (this.flags & FLAG.HTTP10) ours += '\r\nConnection: keep-alive';
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

  body(data) {
    switch (this.mode) {
      case 'length': {
        const taken = data.length <= this.rest ? data : data.subarray(0, this.rest);
        this.rest -= taken.length;
        this.sent += taken.length;
        this.complete = this.rest === 0;
        return taken;
      }
      case 'chunked': {
        const taken = this.chunks.feed(data);
        this.complete = this.chunks.complete;
        return taken === data.length ? data : data.subarray(0, taken);
      }
      case 'close':
        this.sent += data.length;
        return data;
      case 'upgraded':
        return data;
      default:
        return EMPTY;
    }
  }
}

module.exports = { BadResponse, Response };
