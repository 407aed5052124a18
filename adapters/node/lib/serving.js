'use strict';
// An http.Server that never listens by itself, and what it says of itself as if it did.

const http = require('node:http');
const https = require('node:https');
const net = require('node:net');

const { EXCHANGE } = require('./file');
const { IDENTITY, Requests, identify } = require('./requests');
const { setTextsApart } = require('./texts');

/** Whether this is a server whose requests can come from Maitred. */
function isServer(app) {
  return app instanceof http.Server || app instanceof https.Server;
}

/** Has a client that waits for it asked for its body, once the application reads that. */
function askWhenRead(request, response) {
  const { _read } = request;
  request._read = function (size) {
    request._read = _read;
    if (!response.headersSent && !response.writableEnded) response.writeContinue();
    return _read.call(this, size);
  };
}

/** Events of a server that bring a request. */
const WITH_REQUEST = new Set(['request', 'checkContinue', 'checkExpectation', 'upgrade']);

/** Has every request that node:http has read say who its user is, and tell its link when the response is finished. */
function watch(server) {
  const { emit } = server;
  server.emit = function (event, request, response, ...rest) {
    // Those that it has not read are ready (requests.js).
    if (event === 'request' && response?.[EXCHANGE]) return emit.call(this, event, request, response, ...rest);
    const current = WITH_REQUEST.has(event) ? request?.socket?.link?.current : null;
    if (current) request[IDENTITY] = current.meta.identity;
    if (event === 'request' && request?.socket?.link) {
      const { link } = request.socket;
      const exchange = link.current;
      if (exchange) {
        request.socket.remember();
        response[EXCHANGE] = exchange;
        exchange.incoming = request;
        if (exchange.response.continues) askWhenRead(request, response);
        response.once('finish', () => link.finished(exchange));
      }
      // Maitred decides about the connection; so there is nothing to say about it.
      response.removeHeader('connection');
    }
    return emit.call(this, event, request, response, ...rest);
  };
}

/** What `address()` says: what was asked for, as it is not known yet where clients will come from. */
function addressOf({ port, host, path }) {
  if (path) return path;
  const address = host ?? '::';
  return { address, family: net.isIPv4(address) ? 'IPv4' : 'IPv6', port: Number(port) };
}

/** The server's own view of it: it listens until it is closed, which ends the channel when everything is answered. */
class Serving {
  /** `asked` is where the application wanted to listen; `leave` is called when it closes the server. */
  constructor(server, asked, leave) {
    this.server = server;
    this.leave = leave;
    this.listening = true;
    this.connections = 0;
    /** The application has closed the server: how its process ends is the application's, too. */
    this.isClosing = false;
    this.isDrained = false;
    /** https.Server takes connections whose TLS is done; here that is Maitred's. */
    this.event = server instanceof https.Server ? 'secureConnection' : 'connection';
    identify();
    setTextsApart();
    watch(server);
    this.requests = new Requests(server, this.event);
    const own = (name, value) => Object.defineProperty(server, name, { value, writable: true, configurable: true });
    Object.defineProperty(server, 'listening', { get: () => this.listening, configurable: true });
    // Connections are Maitred's: how many requests one brings, too. What it is set to means nothing.
    Object.defineProperty(server, 'maxRequestsPerSocket', { get: () => 0, set() {}, configurable: true });
    own('address', () => (this.listening ? addressOf(asked) : null));
    own('getConnections', (callback) => {
      process.nextTick(callback, null, this.connections);
      return server;
    });
    own('close', (callback) => this.close(callback));
    const closing = (name, also) => own(name, () => {
      Object.getPrototypeOf(server)[name].call(server);
      also();
    });
    closing('closeIdleConnections', () => this.requests.closeIdle());
    closing('closeAllConnections', () => this.requests.closeAll());
    process.nextTick(() => { if (this.listening) server.emit('listening'); });
  }

  connect(socket) {
    this.connections += 1;
    socket.once('close', () => { this.connections -= 1; });
    this.server.emit(this.event, socket);
  }

  close(callback) {
    const { server } = this;
    // As a server that does not run: the callback gets an error.
    if (!this.listening) return Object.getPrototypeOf(server).close.call(server, callback);
    if (typeof callback === 'function') server.once('close', callback);
    this.listening = false;
    this.isClosing = true;
    server.closeIdleConnections();
    if (this.isDrained) process.nextTick(() => server.emit('close'));
    else this.leave();
    return server;
  }

  /** Everything is answered, and no more comes; but for that the application may still close the server. */
  drained() {
    this.isDrained = true;
    if (this.isClosing) this.server.emit('close');
  }

  /** The same, and the application closes nothing. */
  ended() {
    this.isDrained = true;
    this.listening = false;
    this.server.closeIdleConnections();
    this.server.emit('close');
  }
}

module.exports = { Serving, isServer };
