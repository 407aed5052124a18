'use strict';

const net = require('node:net');

/** Nothing of node:net may write or read by itself: the connection is Maitred's as long as it is not detached. */
const nothing = () => {};

/** What no frame has room for is not held. */
const HELD_BYTES_MAX = 64 * 1024;

/** How many properties and listeners a socket has. */
function traces(socket) {
  let count = Reflect.ownKeys(socket).length;
  for (const name of ['close', 'end', 'error', 'timeout']) count += socket.listenerCount(name);
  return count;
}

/**
 * What node:http takes for the client's connection: it reads the request from it, in Maitred's words, and writes the
 * response to it. The connection behind it (a Link) does both, and stays after it. It is a net.Socket without a handle, so that
 * whatever asks for one gets one; what a handle would know, the link does. Once the connection is detached, options go on to
 * the socket that it is.
 */
class ClientSocket extends net.Socket {
  constructor(link) {
    super({ allowHalfOpen: true });
    this.link = link;
    this.meta = link.meta;
    this.untouched = null;
    /** The application has it by an 'upgrade' event. */
    this.upgrading = false;
    /** Whether the parser of node:http reads it. */
    this.isParsed = true;
    /** What node:http writes at once: chunk, encoding and callback of each write. */
    this.held = null;
    this.heldBytes = 0;
    this.received = 0;
    this.dispatched = 0;
    this.queuedAtTimeout = 0;
    this.noDelay = undefined;
    this.keepAlive = undefined;
    // An application that needs the error adds its own listener; without this one, a broken connection would end the process.
    this.on('error', nothing);
  }

  // Those of the local end are gone with the connection, as those of a net.Socket are.
  get remoteAddress() { return this.meta.remote.address; }
  get remotePort() { return this.meta.remote.port; }
  get remoteFamily() { return this.meta.remote.family; }
  get localAddress() { return this.destroyed ? undefined : this.meta.local.address; }
  get localPort() { return this.destroyed ? undefined : this.meta.local.port; }
  get localFamily() { return this.destroyed ? undefined : this.meta.local.family; }
  /** True if the client speaks TLS, with Maitred or with a proxy that Maitred trusts; a net.Socket has no such property. */
  get encrypted() { return this.meta.scheme === 'https' || undefined; }
  /** The leading part of the path at which the application is mounted, '' at the root. */
  get mount() { return this.meta.mount; }
  get pending() { return this.destroyed; }
  get bufferSize() { return this.destroyed ? undefined : this.writableLength; }
  get bytesRead() { return this.received; }
  /** What has been sent; `bytesWritten` adds what the stream still holds. */
  get _bytesDispatched() { return this.dispatched; }

  address() {
    if (this.destroyed) return {};
    const { address, port, family } = this.meta.local;
    return { address, family, port };
  }

  /** node:http does so before it writes a response that is there as a whole. */
  cork() {
    super.cork();
    if (this.held === null && this.writableLength === 0 && this.link.mayJoin) {
      this.held = [];
      this.heldBytes = 0;
    }
  }

  write(chunk, encoding, callback) {
    const { held } = this;
    if (held === null || (typeof chunk !== 'string' && !(chunk instanceof Uint8Array))) {
      this.release();
      return super.write(chunk, encoding, callback);
    }
    if (typeof encoding === 'function') held.push(chunk, 'utf8', encoding);
    else held.push(chunk, encoding ?? 'utf8', callback);
    this.heldBytes += chunk.length;
    if (this.heldBytes <= HELD_BYTES_MAX) return this.heldBytes < this.writableHighWaterMark;
    this.release();
    return !this.writableNeedDrain;
  }

  end(...values) {
    this.release();
    return super.end(...values);
  }

  uncork() {
    if (this.held !== null && this.writableCorked === 1) {
      const { held } = this;
      this.held = null;
      if (this.link.join(held)) {
        for (let n = 2; n < held.length; n += 3) if (typeof held[n] === 'function') process.nextTick(held[n]);
      } else {
        this.pass(held);
      }
    }
    super.uncork();
  }

  /** What is held goes the way of a stream. */
  release() {
    if (this.held !== null) this.pass(this.held);
  }

  pass(held) {
    this.held = null;
    for (let n = 0; n < held.length; n += 3) super.write(held[n], held[n + 1], held[n + 2]);
  }

  _read() {
    this.link.resume();
  }

  _write(chunk, encoding, callback) {
    this._unrefTimer();
    this.link.send([{ chunk, encoding }], callback);
  }

  _writev(chunks, callback) {
    this._unrefTimer();
    this.link.send(chunks, callback);
  }

  _final(callback) {
    this.link.onEnd(callback);
  }

  _destroy(error, callback) {
    this.release();
    // node:net closes a handle and says by 'close' whether there was an error; this one has nothing to close.
    const close = (closed) => {
      setImmediate(closed);
      return 0;
    };
    this._handle = { close, reset: close, bytesRead: this.received, bytesWritten: this.dispatched };
    super._destroy(error, callback);
    this._handle = null;
    this.link.onDestroyed(this);
  }

  /** Sends a client a reset if its socket is the application's own; otherwise the response is aborted. */
  resetAndDestroy() {
    this.link.reset();
    return this.destroy();
  }

  /** Idle connections are Maitred's: they have no timeout here. Nor has a client that still takes what was written to it. */
  _onTimeout() {
    const { busy, detached, queued } = this.link;
    if (!busy && !detached) return;
    if (queued > 0 && queued !== this.queuedAtTimeout) {
      this.queuedAtTimeout = queued;
      this._unrefTimer();
      return;
    }
    super._onTimeout();
  }

  setNoDelay(enable = true) {
    this.noDelay = Boolean(enable);
    this.link.own?.setNoDelay(this.noDelay);
    return this;
  }

  setKeepAlive(enable = false, initialDelay = 0) {
    this.keepAlive = [Boolean(enable), initialDelay];
    this.link.own?.setKeepAlive(...this.keepAlive);
    return this;
  }

  /** The end of what is to be read; as with node:net, also if the application does not read. */
  pushEnd() {
    this.push(null);
    this.read(0);
  }

  /** Notes how node:http leaves it, once. */
  remember() {
    this.untouched ??= traces(this);
  }

  /** Whether the application has left something on it. */
  get isTouched() {
    return this.untouched !== null && this.untouched !== traces(this);
  }

  /** What was asked for before the connection became the application's own. */
  applyOptions(socket) {
    if (this.noDelay !== undefined) socket.setNoDelay(this.noDelay);
    if (this.keepAlive !== undefined) socket.setKeepAlive(...this.keepAlive);
  }

  ref() {
    this.link.own?.ref();
    return this;
  }

  unref() {
    this.link.own?.unref();
    return this;
  }
}

module.exports = { ClientSocket };
