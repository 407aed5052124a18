'use strict';

const { Duplex } = require('node:stream');

/**
 * What node:http takes for the client's connection: it reads the request from it, in Maitred's words, and writes the
 * response to it. The connection behind it (a Link) does both, and outlives it.
 */
class ClientSocket extends Duplex {
  constructor(link) {
    super({ decodeStrings: false, allowHalfOpen: true });
    this.link = link;
    this.timeout = 0;
    this.timer = null;
    this.bytesRead = 0;
    this.bytesWritten = 0;
    this.connecting = false;
    // Whoever is interested listens; a connection that breaks is nobody's failure.
    this.on('error', () => {});
  }

  get remoteAddress() { return this.link.meta.remote.address; }
  get remotePort() { return this.link.meta.remote.port; }
  get remoteFamily() { return this.link.meta.remote.family; }
  get localAddress() { return this.link.meta.local.address; }
  get localPort() { return this.link.meta.local.port; }
  get localFamily() { return this.link.meta.local.family; }
  /** Whether the client speaks TLS, with Maitred or with a proxy that Maitred trusts. */
  get encrypted() { return this.link.meta.scheme === 'https'; }
  /** The leading part of the path at which the application is mounted, '' at the root. */
  get mount() { return this.link.meta.mount; }
  get pending() { return false; }
  get readyState() { return this.destroyed ? 'closed' : 'open'; }

  address() {
    const { address, port, family } = this.link.meta.local;
    return { address, port, family };
  }

  _read() {
    this.link.resume();
  }

  _write(chunk, encoding, callback) {
    this.touch();
    this.link.send([{ chunk, encoding }], callback);
  }

  _writev(chunks, callback) {
    this.touch();
    this.link.send(chunks, callback);
  }

  _final(callback) {
    this.link.onEnd(callback);
  }

  _destroy(error, callback) {
    clearTimeout(this.timer);
    this.link.onDestroyed(this);
    callback(error);
  }

  destroySoon() {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', this.destroy);
  }

  /** As that of net.Socket, but only while a request is under way: idle connections are Maitred's. */
  setTimeout(milliseconds, callback) {
    this.timeout = milliseconds;
    if (callback) {
      if (milliseconds > 0) this.once('timeout', callback);
      else this.removeListener('timeout', callback);
    }
    clearTimeout(this.timer);
    this.timer = null;
    this.touch();
    return this;
  }

  /** Something has happened, or a request has begun. */
  touch() {
    if (this.timer) {
      this.timer.refresh();
    } else if (this.timeout > 0) {
      this.timer = setTimeout(() => { if (this.link.busy) this.emit('timeout'); }, this.timeout);
      this.timer.unref();
    }
  }

  // The connection's options are Maitred's; what Node's own programs call does nothing.
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
  ref() { return this; }
  unref() { return this; }
}

module.exports = { ClientSocket };
