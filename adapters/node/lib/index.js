'use strict';
// Runs a Node.js application behind Maitred: README.md has the use, ../../PROTOCOL.md the protocol.

const http = require('node:http');

const { Behind, isBehindMaitred } = require('./behind');
const { sendFile } = require('./file');
const { isServer } = require('./serving');

const PORT = 8080;

/**
 * Answers a request whose handler has failed: with the error's own status if the client caused it, otherwise with 500; what
 * has begun is aborted.
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

/** The server of what was given: a listener, a server, or a Fastify or Koa application. */
async function serverOf(app) {
  if (isServer(app)) return app;
  if (typeof app?.ready === 'function' && isServer(app.server)) {
    await app.ready();
    return app.server;
  }
  if (typeof app === 'function') return http.createServer(guarded(app));
  if (typeof app?.callback === 'function') return http.createServer(guarded(app.callback()));
  throw new TypeError('maitred.listen: not a request listener, an http.Server, or an application of Fastify or Koa');
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

/**
 * Serves `app`: behind Maitred if that has started this process, otherwise on a port of its own. Resolves with its server once
 * that takes requests.
 */
async function listen(app, options = {}) {
  const server = await serverOf(app);
  if (!isBehindMaitred()) return listenAlone(server, options);
  const { port = process.env.PORT || PORT, host, onShutdown } = options;
  const closes = typeof app?.ready === 'function' && typeof app.close === 'function';
  new Behind(server, { port, host }, options, onShutdown ?? (closes ? () => app.close() : null));
  return server;
}

module.exports = { isBehindMaitred, listen, sendFile };
