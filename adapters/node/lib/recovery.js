'use strict';
// The recovery socket: where this process gets another channel when the server's worker process has died
// (../../PROTOCOL.md, section 8).

const net = require('node:net');

const { channelHandle } = require('./handles');

/** How long to wait for another channel, in milliseconds. */
const PATIENCE_MS = 30_000;

/** Hands out channels. Nothing is read before one is asked for: until then, even the end of the socket means nothing. */
class Recovery {
  constructor(fd) {
    this.fd = fd;
    this.handle = null;
    this.socket = null;
    this.taken = [];
    this.stopped = false;
    this.answer = null;
  }

  /** Calls `answer` with the descriptor of another channel, or with null if there is none. */
  next(answer) {
    if (this.stopped) return void setImmediate(answer, null);
    const timer = setTimeout(() => this.answer?.(null), PATIENCE_MS);
    this.answer = (fd) => {
      this.answer = null;
      clearTimeout(timer);
      answer(fd);
    };
    if (!this.socket) this.open();
    this.socket.resume();
    return undefined;
  }

  open() {
    this.handle = channelHandle(this.fd);
    const none = () => this.answer?.(null);
    this.socket = new net.Socket({
      handle: this.handle,
      manualStart: true,
      allowHalfOpen: true,
      onread: { buffer: Buffer.alloc(1), callback: () => this.onByte() },
    });
    this.socket.on('end', none).on('error', none).on('close', none);
  }

  /** One message is one byte. What comes behind it stays in the kernel until it is asked for. */
  onByte() {
    const { pendingHandle } = this.handle;
    this.handle.pendingHandle = undefined;
    // Its descriptor becomes the channel's, whose handle is of another kind, and closes it. This one is never used.
    if (pendingHandle) this.taken.push(pendingHandle);
    this.answer?.(pendingHandle ? pendingHandle.fd : null);
    return false;
  }

  /** Ends a wait, now or later. */
  stop() {
    this.stopped = true;
    this.answer?.(null);
  }
}

module.exports = { Recovery };
