'use strict';
// What waits to be written to the channel: frames one after another in blocks of memory, so that a turn of the event loop costs
// one system call, whatever it says.

const { HEADER_BYTES, KIND, SERVICE_US_MAX } = require('./frames');

const BLOCK_BYTES = 128 * 1024;
const DONE_BYTES = 16;

class Outbox {
  constructor() {
    /** Whole pieces, in their order. */
    this.pieces = [];
    this.block = null;
    /** Where in the block what has not become a piece begins and ends. */
    this.from = 0;
    this.to = 0;
    /** Bytes in all. */
    this.bytes = 0;
  }

  /** Where so many bytes may be written, in `block`. */
  room(bytes) {
    if (this.block === null || this.block.length - this.to < bytes) {
      this.seal();
      this.block = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, bytes));
      this.from = 0;
      this.to = 0;
    }
    const at = this.to;
    this.to += bytes;
    this.bytes += bytes;
    return at;
  }

  /** Makes a piece of what the block holds. */
  seal() {
    if (this.to > this.from) this.pieces.push(this.block.subarray(this.from, this.to));
    this.from = this.to;
  }

  /** Frames that exist already. The number of the piece that they are. */
  push(bytes) {
    this.seal();
    this.bytes += bytes.length;
    return this.pieces.push(bytes) - 1;
  }

  /** Writes the header of a frame, and makes room for its payload. Where that begins in `block`. */
  header(kind, flags, connection, request, payloadBytes) {
    const at = this.room(HEADER_BYTES + payloadBytes);
    const { block } = this;
    block.writeUInt32LE(payloadBytes, at);
    block.writeUInt32LE(kind | (flags << 8), at + 4);
    block.writeUInt32LE(connection, at + 8);
    block.writeUInt32LE(request, at + 12);
    return at + HEADER_BYTES;
  }

  /** `outcome` is one of OUTCOME, `serviceUs` microseconds, `bodyBytes` without head and framing. */
  done(connection, request, outcome, status, serviceUs, bodyBytes) {
    const at = this.header(KIND.DONE, outcome, connection, request, DONE_BYTES);
    const { block } = this;
    block.writeUInt32LE(status, at);
    block.writeUInt32LE(Math.min(serviceUs, SERVICE_US_MAX) >>> 0, at + 4);
    block.writeUInt32LE(bodyBytes % 2 ** 32, at + 8);
    block.writeUInt32LE(Math.floor(bodyBytes / 2 ** 32), at + 12);
  }

  /** One TAIL with a whole response, of at most TAIL_BYTES_MAX (see whole.js). */
  whole(connection, request, { head, bytes, pieces }) {
    let at = this.header(KIND.TAIL, 0, connection, request, bytes);
    this.block.set(head, at);
    at += head.length;
    for (let n = 0; n < pieces.length; n += 2) {
      const piece = pieces[n];
      if (typeof piece === 'string') {
        at += this.block.write(piece, at, pieces[n + 1]);
      } else {
        this.block.set(piece, at);
        at += piece.length;
      }
    }
  }

  /** The first `count` pieces. */
  take(count) {
    const pieces = this.pieces.splice(0, count);
    for (const piece of pieces) this.bytes -= piece.length;
    return pieces;
  }

  /** Everything has left, so that the block can be used again. */
  reuse() {
    this.from = 0;
    this.to = 0;
  }

  /** What was taken last is still needed. */
  leave() {
    this.seal();
    this.block = null;
  }

  clear() {
    this.pieces = [];
    this.block = null;
    this.from = 0;
    this.to = 0;
    this.bytes = 0;
  }
}

module.exports = { Outbox };
