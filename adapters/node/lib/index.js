'use strict';
// Runs a Node.js application behind Maitred: README.md has the use, ../../PROTOCOL.md the protocol.

const http = require('node:http');

const { Channel, Detached } = require('./channel');
const { EXCHANGE, sendFile } = require('./file');
const { Recovery } = require('./recovery');

const VARIABLE = 'MAITRED_CHANNEL';
const RECOVERY_VARIABLE = 'MAITRED_RECOVERY';
/** Requests at a time. An event loop does not mind many that wait; this bounds the memory that they take. */
const CAPACITY = 1000;
const CAPACITY_MAX = 65536;
const PORT = 8080;

/** Whether Maitred has started this process. */
function isBehindMaitred() {
  return process.env[VARIABLE] !== undefined;
}

/**
 * Answers a request whose handler has failed: with the error's own status if it is the client's fault, otherwise with 500; what
 * has begun breaks off.
 */
function fail(response, error) {
  const status = error?.statusCode >= 400 && error.statusCode < 500 ? error.statusCode : 500;
  if (status === 500) console.error(error);
  if (response.headersSent) return void response.destroy();
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  response.statusCode = status;
  response.setHeader('Content-Type', 'text/plain');
  response.end(`${http.STATUS_CODES[status] ?? 'Bad Request'}\n`);
  return undefined;
}

/** A request listener whose failures, thrown or rejected, cost its own request only. */
function guarded(listener) {
  return (request, response) => {
    try {
      const result = listener(request, response);
      if (typeof result?.catch === 'function') result.catch((error) => fail(response, error));
    } catch (error) {
      fail(response, error);
    }
  };
}

/** The http.Server of what was given: a listener, a server, or a Fastify or Koa application. */
async function serverOf(app) {
  if (app instanceof http.Server) return app;
  if (typeof app?.ready === 'function' && app.server) {
    await app.ready();
    return app.server;
  }
  if (typeof app === 'function') return http.createServer(guarded(app));
  if (typeof app?.callback === 'function') return http.createServer(guarded(app.callback()));
  throw new TypeError('maitred.listen: not a request listener, an http.Server, or an application of Fastify or Koa');
}

/** Has every request of the server tell its link when the response is finished. */
function watch(server) {
  const { emit } = server;
  server.emit = function (event, request, response, ...rest) {
    if (event === 'request' && request?.socket?.link) {
      const { link } = request.socket;
      const exchange = link.current;
      if (exchange) {
        request.socket.remember();
        response[EXCHANGE] = exchange;
        response.once('finish', () => link.finished(exchange));
      }
      // Maitred decides about the connection; so there is nothing to say about it.
      response.removeHeader('connection');
    }
    return emit.call(this, event, request, response, ...rest);
  };
}

function listenAlone(server, { port = process.env.PORT || PORT, host }) {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.removeListener('error', reject);
      resolve(server);
    });
  });
}

async function leave(detached, app, onShutdown) {
  try {
    if (onShutdown) await onShutdown();
    else if (typeof app?.ready === 'function' && typeof app.close === 'function') await app.close();
    for (const link of detached) if (!onShutdown) link.client?.end();
    await detached.end();
  } catch (error) {
    console.error(error);
  }
  process.exit(0);
}

function listenBehind(server, app, { capacity = CAPACITY, name = `node ${process.version}`, onShutdown }) {
  if (!Number.isInteger(capacity) || capacity < 1 || capacity > CAPACITY_MAX) {
    throw new RangeError(`maitred.listen: capacity is ${capacity}, and must be from 1 to ${CAPACITY_MAX}`);
  }
  const fd = Number(process.env[VARIABLE]);
  const recoveryFd = process.env[RECOVERY_VARIABLE];
  // Programs that this one starts are not to take them for theirs.
  delete process.env[VARIABLE];
  delete process.env[RECOVERY_VARIABLE];
  watch(server);
  const recovery = recoveryFd === undefined ? null : new Recovery(Number(recoveryFd));
  const detached = new Detached();
  let channel = null;
  const ended = () => leave(detached, app, onShutdown);
  const lost = recovery && (() => recovery.next((next) => (next === null ? ended() : begin(next))));
  const begin = (number) => { channel = new Channel(number, server, { capacity, name, ended, lost, detached }); };
  // Before HELLO: as soon as that is sent, there may be something to finish.
  process.on('SIGTERM', () => {
    recovery?.stop();
    channel.leave();
  });
  // A terminal sends it to all processes, and the master decides.
  process.on('SIGINT', () => {});
  begin(fd);
}

/**
 * Serves `app`: behind Maitred if that has started this process, otherwise on a port of its own. Resolves with the
 * http.Server once it takes requests.
 */
async function listen(app, options = {}) {
  const server = await serverOf(app);
  if (!isBehindMaitred()) return listenAlone(server, options);
  listenBehind(server, app, options);
  return server;
}

module.exports = { isBehindMaitred, listen, sendFile };
