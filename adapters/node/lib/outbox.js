'use strict';
// What waits to be written to the channel: frames one after another in blocks of memory, so that a turn of the event loop costs
// one system call, whatever it says.

const { HEADER_BYTES, KIND, SERVICE_US_MAX, TAIL_BYTES_MAX, TAIL_TOTAL_BYTES_MAX, tails } = require('./frames');

const BLOCK_BYTES = 128 * 1024;
const DONE_BYTES = 16;
/** A buffer has room for all that is left of one response. */
const TAILS_BYTES = TAIL_TOTAL_BYTES_MAX + HEADER_BYTES * TAIL_TOTAL_BYTES_MAX / TAIL_BYTES_MAX;
/** How many such buffers are kept to be used again. */
const SPARE_MAX = 4;

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
    /** Buffers for TAILs that may be used again, and those, by their memory, that are in use. */
    this.spare = [];
    this.lent = new Map();
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

  /** What is left of a response, of at most TAIL_TOTAL_BYTES_MAX, in as many TAILs as it takes. */
  tails(connection, request, data) {
    if (data.length <= BLOCK_BYTES / 2) {
      for (let at = 0; at < data.length; at += TAIL_BYTES_MAX) {
        const piece = data.subarray(at, at + TAIL_BYTES_MAX);
        // The block may be another one afterwards.
        const to = this.header(KIND.TAIL, 0, connection, request, piece.length);
        this.block.set(piece, to);
      }
      return;
    }
    const buffer = this.spare.pop() ?? Buffer.allocUnsafeSlow(TAILS_BYTES);
    this.lent.set(buffer.buffer, buffer);
    this.push(tails(connection, request, data, buffer));
  }

  /** These pieces have left. */
  giveBack(pieces) {
    if (this.lent.size === 0) return;
    for (const { buffer: memory } of pieces) {
      const buffer = this.lent.get(memory);
      if (buffer && this.lent.delete(memory) && this.spare.length < SPARE_MAX) this.spare.push(buffer);
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
    this.lent.clear();
    this.pieces = [];
    this.block = null;
    this.from = 0;
    this.to = 0;
    this.bytes = 0;
  }
}

module.exports = { Outbox };
