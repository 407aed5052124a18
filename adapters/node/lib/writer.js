'use strict';
// Writing to a response descriptor that is shared with Maitred.

const fs = require('node:fs');
const net = require('node:net');

const EMPTY = Buffer.alloc(0);

/** What is left of pieces behind so many bytes, as pieces. */
function restsOf(pieces, written) {
  let [at, before] = [0, written];
  while (before >= pieces[at].length) {
    before -= pieces[at].length;
    at += 1;
  }
  const rests = pieces.slice(at);
  rests[0] = rests[0].subarray(before);
  return rests;
}

/** The same as one: mostly it is a part of the last piece, which is not copied. */
function restOf(pieces, written) {
  const rests = restsOf(pieces, written);
  return rests.length === 1 ? rests[0] : Buffer.concat(rests);
}

/**
 * A descriptor that came over the channel, as the handle of node:net that it arrived as. What the kernel takes at once is
 * written without the stream machinery, which costs less and, unlike a stream, says how much was taken: the rest can be
 * Maitred's. Only for waiting, and for reading where that is allowed, a net.Socket is made of it.
 */
class Writer {
  constructor(handle) {
    this.handle = handle;
    this.fd = handle.fd;
    this.made = null;
    this.closed = false;
  }

  /** The same as a net.Socket, which does not read before `resume`. */
  get socket() {
    if (!this.made) {
      this.made = new net.Socket({ handle: this.handle, manualStart: true, allowHalfOpen: true });
      this.made.on('error', () => {});
      this.made.once('close', () => { this.closed = true; });
    }
    return this.made;
  }

  /** Bytes that wait for the client; 0 if there is no telling. */
  get queued() {
    return this.made?._handle?.writeQueueSize ?? 0;
  }

  /** Whether the other end, which writes no more, may still read. A write of nothing fails on a relay if it does not. */
  get isHalfOpen() {
    try {
      fs.writeSync(this.fd, EMPTY);
      return true;
    } catch (error) {
      return error.code !== 'EPIPE';
    }
  }

  /** Writes what the socket takes now. Returns what it did not take, null if that is nothing; throws what write(2) says. */
  attempt(pieces, bytes) {
    if (this.closed) throw Object.assign(new Error('the connection is closed'), { code: 'EPIPE' });
    let written = 0;
    try {
      written = pieces.length === 1 ? fs.writeSync(this.fd, pieces[0]) : fs.writevSync(this.fd, pieces);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
    return written === bytes ? null : restOf(pieces, written);
  }

  /** Writes everything, as the socket takes it. */
  wait(data, callback) {
    if (this.closed) return void process.nextTick(callback, new Error('the connection is closed'));
    this.socket.write(data, callback);
    return undefined;
  }

  /** Closes this process's copy, without shutting the connection down; what waits to be written is dropped. */
  close() {
    if (this.closed) return;
    this.closed = true;
    if (this.made) this.made.destroy();
    else this.handle.close();
  }
}

module.exports = { Writer, restOf, restsOf };
