'use strict';
// Frames of the handoff protocol, version 1 (../../PROTOCOL.md): bytes in, frames out, and the reverse. No I/O.

const HEADER_BYTES = 16;
/** Bytes of a payload from Maitred until WELCOME says otherwise. */
const PAYLOAD_BYTES_MAX = 2 * 1024 * 1024;
/** Bytes of the response in one TAIL. */
const TAIL_BYTES_MAX = 64 * 1024;
/** Bytes of the response in all TAILs of one request. */
const TAIL_TOTAL_BYTES_MAX = 1024 * 1024;
const NAME_BYTES_MAX = 64;
const META_BYTES_MAX = 4096;
/** Fields behind one body, of a request or of a response, and their bytes. */
const TRAILERS_MAX = 32;
const TRAILER_BYTES_MAX = 8190;
const FRAME_DESCRIPTORS_MAX = 2;
const SERVICE_US_MAX = 0xffff_ffff;
const VERSION = 1;

const KIND = Object.freeze({
  REQUEST: 1, FORGET: 2, CANCEL: 3, PING: 4, SHUTDOWN: 5, WELCOME: 6, TRAILERS: 7,
  HELLO: 65, DONE: 66, TAIL: 67, PONG: 68, DETACH: 69, LIMITS: 70, STREAMS: 71,
});
/** Flags of REQUEST. */
const FLAG = Object.freeze({ KEEP: 1, HTTP10: 2, HEAD: 4, BODY_FD: 8, MAY_DETACH: 16, BODY_STREAM: 32 });
const REQUEST_FLAGS = FLAG.KEEP | FLAG.HTTP10 | FLAG.HEAD | FLAG.MAY_DETACH | FLAG.BODY_STREAM;
/** Flag of any kind but REQUEST: a receiver that does not know the kind skips the frame. */
const OPTIONAL = 128;
/** Flag of TAIL: a part of a file, whose descriptor comes along. */
const FILE = 1;
/** Flag of HELLO: one descriptor per message, and only stream sockets. */
const SOCKETS_ONLY = 1;
/** Flag of HELLO: it takes another channel when this one is lost. */
const RECOVERS = 2;
/** How a response ended: flags of DONE. */
const OUTCOME = Object.freeze({ BROKEN: 0, CLEAN: 1, CLOSE: 2 });
/** Kinds that consist of a header alone. */
const BARE = new Set([KIND.FORGET, KIND.CANCEL, KIND.PING, KIND.SHUTDOWN]);
/** A line of TRAILERS. */
const TRAILER = /^[!#$%&'*+\-.^_`|~0-9a-z]+: [^\0\r\n]*$/;

/** Maitred has said something that the protocol does not allow: where the next frame begins is unknown. */
class Violation extends Error {}

function refuse(why) {
  throw new Violation(why);
}

/** One frame. The parts of a REQUEST are made when they are asked for: mostly that is `text` alone. */
class Frame {
  constructor(data, at) {
    this.data = data;
    this.payloadAt = at + HEADER_BYTES;
    this.end = this.payloadAt + data.readUInt32LE(at);
    this.kind = data[at + 4];
    this.flags = data[at + 5];
    this.descriptors = data[at + 6] | (data[at + 7] << 8);
    this.connection = data.readUInt32LE(at + 8);
    this.request = data.readUInt32LE(at + 12);
    /** Of a REQUEST: where its parts begin, and the trailers, null if there are none. */
    this.metaAt = 0;
    this.headAt = 0;
    this.bodyAt = 0;
    this.trailers = null;
  }

  get payload() { return this.data.subarray(this.payloadAt, this.end); }
  get meta() { return this.data.subarray(this.metaAt, this.headAt); }
  get head() { return this.data.subarray(this.headAt, this.bodyAt); }
  get body() { return this.data.subarray(this.bodyAt, this.end); }
  get metaBytes() { return this.headAt - this.metaAt; }
  get bodyBytes() { return this.end - this.bodyAt; }

  /** Meta and head as ISO 8859-1. */
  get text() { return this.data.latin1Slice(this.metaAt, this.bodyAt); }
}

/**
 * Cuts what was received into frames. `add` takes bytes that it may keep, and calls `take(frame)` for each whole frame. TRAILERS
 * are a part of the REQUEST behind them, and not taken by themselves.
 */
class Decoder {
  constructor(take) {
    this.take = take;
    this.payloadMax = PAYLOAD_BYTES_MAX;
    this.pieces = [];
    this.bytes = 0;
    this.needed = HEADER_BYTES;
    this.trailed = null;
    this.requests = 0;
    this.repeated = null;
  }

  add(chunk) {
    if (this.bytes === 0 && chunk.length >= this.needed) {
      return this.cut(chunk);
    }
    this.pieces.push(chunk);
    this.bytes += chunk.length;
    if (this.bytes < this.needed) return undefined;
    const whole = Buffer.concat(this.pieces, this.bytes);
    this.pieces = [];
    this.bytes = 0;
    return this.cut(whole);
  }

  cut(data) {
    let at = 0;
    this.needed = HEADER_BYTES;
    this.note(data);
    try {
      while (data.length - at >= HEADER_BYTES) {
        const frame = this.header(data, at);
        if (data.length < frame.end) {
          this.needed = frame.end - at;
          break;
        }
        at = frame.end;
        if (this.trailed) this.join(frame);
        if (frame.kind === KIND.REQUEST) parts(frame);
        if (frame.kind === KIND.TRAILERS) this.trailed = checked(frame);
        else this.take(frame);
      }
    } finally {
      // Also if a listener of the application has thrown: the frames behind its request are others'.
      if (at < data.length) {
        this.pieces.push(data.subarray(at));
        this.bytes = data.length - at;
      }
    }
  }

  /**
   * How many requests are there at once, and connections of which several are: a server may do so with workers that answer in
   * order.
   */
  note(data) {
    this.requests = 0;
    this.repeated = null;
    const seen = new Set();
    for (let at = 0; data.length - at >= HEADER_BYTES; at += HEADER_BYTES + data.readUInt32LE(at)) {
      if (data[at + 4] !== KIND.REQUEST) continue;
      this.requests += 1;
      const connection = data.readUInt32LE(at + 8);
      if (seen.has(connection)) (this.repeated ??= new Set()).add(connection);
      seen.add(connection);
    }
  }

  /** Goes on behind a frame whose taker has thrown. */
  resume() {
    if (this.bytes < this.needed) return;
    const whole = Buffer.concat(this.pieces, this.bytes);
    this.pieces = [];
    this.bytes = 0;
    this.cut(whole);
  }

  /** What stands behind TRAILERS is the REQUEST to which they belong. */
  join(frame) {
    const { connection, request, payload } = this.trailed;
    const belongs = frame.kind === KIND.REQUEST && frame.connection === connection && frame.request === request;
    if (!belongs || frame.flags & FLAG.MAY_DETACH) refuse(`TRAILERS before a frame of kind ${frame.kind}, not their REQUEST`);
    frame.trailers = payload;
    this.trailed = null;
  }

  header(data, at) {
    const frame = new Frame(data, at);
    const { kind, flags, descriptors } = frame;
    const bytes = frame.end - frame.payloadAt;
    if (bytes > this.payloadMax) refuse(`a payload of ${bytes} bytes`);
    if (descriptors > FRAME_DESCRIPTORS_MAX) refuse(`a frame with ${descriptors} descriptors`);
    if (kind === KIND.REQUEST) {
      if (flags & ~REQUEST_FLAGS) refuse(`a REQUEST with flags ${flags}`);
      return frame;
    }
    const known = kind > KIND.REQUEST && kind <= KIND.TRAILERS;
    if (!known && !(flags & OPTIONAL)) refuse(`a frame of unknown kind ${kind}`);
    if (BARE.has(kind) && (bytes || descriptors)) refuse(`a frame of kind ${kind} with a payload or descriptors`);
    if (known && flags & ~OPTIONAL) refuse(`a frame of kind ${kind} with flags ${flags}`);
    return frame;
  }
}

/** Divides the payload of a REQUEST. */
function parts(frame) {
  const { data, payloadAt, end } = frame;
  if (end - payloadAt < 12) refuse('a REQUEST without its lengths');
  frame.metaAt = payloadAt + 12;
  frame.headAt = frame.metaAt + data.readUInt32LE(payloadAt);
  frame.bodyAt = frame.headAt + data.readUInt32LE(payloadAt + 4);
  if (frame.bodyAt + data.readUInt32LE(payloadAt + 8) !== end || frame.metaBytes > META_BYTES_MAX) {
    refuse('a REQUEST whose parts do not add up');
  }
  if (frame.flags & FLAG.BODY_STREAM && (frame.bodyAt < end || frame.flags & FLAG.MAY_DETACH)) {
    refuse('a REQUEST whose body comes in two ways');
  }
}

/** TRAILERS, if what they say are fields. */
function checked(frame) {
  const lines = frame.payload.latin1Slice().split('\r\n');
  const isWhole = lines.pop() === '' && lines.length > 0 && lines.every((line) => TRAILER.test(line));
  if (frame.descriptors || !isWhole || lines.length > TRAILERS_MAX || frame.payload.length > TRAILER_BYTES_MAX) {
    refuse(`TRAILERS that are not 1 to ${TRAILERS_MAX} fields`);
  }
  return frame;
}

/** Version and payload limit of a WELCOME. */
function welcome(frame) {
  if (frame.payload.length !== 8 || frame.descriptors) refuse('a WELCOME of another size');
  const version = frame.payload.readUInt16LE(0);
  if (version !== VERSION) refuse(`version ${version} of the protocol, which was not offered`);
  return { version, payloadMax: frame.payload.readUInt32LE(4) };
}

function header(kind, flags, connection, request, payloadBytes) {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + payloadBytes);
  bytes.writeUInt32LE(payloadBytes, 0);
  bytes[4] = kind;
  bytes[5] = flags;
  bytes.writeUInt16LE(0, 6);
  bytes.writeUInt32LE(connection, 8);
  bytes.writeUInt32LE(request, 12);
  return bytes;
}

function hello(capacity, name, recovers = false) {
  const text = Buffer.from(name).subarray(0, NAME_BYTES_MAX);
  const bytes = header(KIND.HELLO, SOCKETS_ONLY | (recovers ? RECOVERS : 0), 0, 0, 8 + text.length);
  bytes.writeUInt16LE(VERSION, 16);
  bytes.writeUInt16LE(VERSION, 18);
  bytes.writeUInt32LE(capacity, 20);
  text.copy(bytes, 24);
  return bytes;
}

/** How many files this process may have open. */
function limits(openFiles) {
  const bytes = header(KIND.LIMITS, OPTIONAL, 0, 0, 4);
  bytes.writeUInt32LE(Math.min(Math.max(openFiles, 1), 2 ** 32 - 1), 16);
  return bytes;
}

/** It takes bodies while they come. */
function streams() {
  return header(KIND.STREAMS, OPTIONAL, 0, 0, 0);
}

/** Bytes of the response that Maitred delivers, cut into as many frames as it takes, at the beginning of `buffer`. */
function tails(connection, request, data, buffer) {
  let to = 0;
  for (let at = 0; at < data.length; at += TAIL_BYTES_MAX) {
    const bytes = Math.min(TAIL_BYTES_MAX, data.length - at);
    buffer.writeUInt32LE(bytes, to);
    buffer.writeUInt32LE(KIND.TAIL, to + 4);
    buffer.writeUInt32LE(connection, to + 8);
    buffer.writeUInt32LE(request, to + 12);
    data.copy(buffer, to + HEADER_BYTES, at, at + bytes);
    to += HEADER_BYTES + bytes;
  }
  return buffer.subarray(0, to);
}

/** A part of a file that Maitred delivers; the descriptor is passed with the frame. */
function tailFile(connection, request, offset, length) {
  const bytes = header(KIND.TAIL, FILE, connection, request, 16);
  bytes.writeUInt16LE(1, 6);
  bytes.writeBigUInt64LE(BigInt(offset), 16);
  bytes.writeBigUInt64LE(BigInt(length), 24);
  return bytes;
}

function pong(request) {
  return header(KIND.PONG, 0, 0, request, 0);
}

function detach(connection, request) {
  const bytes = header(KIND.DETACH, 0, connection, request, 4);
  bytes.writeUInt16LE(101, 16);
  bytes.writeUInt16LE(0, 18);
  return bytes;
}

module.exports = {
  Decoder, FLAG, HEADER_BYTES, KIND, OUTCOME, SERVICE_US_MAX, TAIL_BYTES_MAX, TAIL_TOTAL_BYTES_MAX, TRAILERS_MAX,
  TRAILER_BYTES_MAX, Violation,
  detach, hello, limits, pong, refuse, streams, tailFile, tails, welcome,
};
