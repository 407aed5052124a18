'use strict';
// The application of the differential test (adapters/differential/README.md), for node:http, or with `express` as its
// argument for Express.

const crypto = require('node:crypto');
const http = require('node:http');
const path = require('node:path');
const { Readable } = require('node:stream');
const timers = require('node:timers/promises');

const { WebSocketServer } = require('ws');

const maitred = require('../lib');

const TEXT = 'text/plain';
const JSON_TYPE = 'application/json';

function pattern(count) {
  const bytes = Buffer.alloc(count);
  for (let n = 0; n < count; n += 1) bytes[n] = n % 251;
  return bytes;
}

function pieces(data, count) {
  const size = Math.max(1, Math.ceil(data.length / Math.max(count, 1)));
  return Array.from({ length: Math.ceil(data.length / size) }, (_, n) => data.subarray(n * size, (n + 1) * size));
}

function answer(response, body, { status = 200, type = TEXT, fields = {} } = {}) {
  const data = Buffer.from(body);
  if (status === 204 || status === 304) {
    response.writeHead(status, fields).end();
    return;
  }
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': data.length, ...fields });
  response.end(data);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return unescape(text);
  }
}

async function echo(request, response, url) {
  const hash = crypto.createHash('sha256');
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    hash.update(piece);
  }
  const [raw, query = ''] = url.split(/\?(.*)/s);
  const type = request.headers['content-type'] ?? '';
  const seen = { length, method: request.method, path: decoded(raw), query, sha256: hash.digest('hex'), type };
  answer(response, JSON.stringify(seen), { type: JSON_TYPE });
}

const ROUTES = {
  headers(request, response) {
    const wanted = /^(x-test.*|host|accept-language|content-type)$/;
    const found = Object.entries(request.headers).filter(([name]) => wanted.test(name)).sort();
    answer(response, JSON.stringify(found), { type: JSON_TYPE });
  },
  cookies(request, response) {
    const fields = { 'Set-Cookie': ['a=1; Path=/; HttpOnly', 'b=2; Max-Age=60'] };
    const cookies = Object.fromEntries((request.headers.cookie ?? '').split('; ').filter(Boolean)
      .map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
    answer(response, JSON.stringify(cookies), { type: JSON_TYPE, fields });
  },
  bytes(request, response, { n }) {
    answer(response, pattern(n), { type: 'application/octet-stream' });
  },
  stream(request, response, { n, pieces: count }) {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream' });
    if (request.method === 'HEAD') return void response.end();
    Readable.from(pieces(pattern(n), count)).pipe(response);
    return undefined;
  },
  repeat(request, response) {
    answer(response, 'repeat', { fields: { 'X-Test': ['one', 'two'], 'X-Other': 'caf\xe9' } });
  },
  redirect(request, response) {
    answer(response, '', { status: 302, fields: { Location: '/bytes?n=5' } });
  },
  etag(request, response) {
    const fields = { ETag: '"v1"', 'Cache-Control': 'max-age=60' };
    if (request.headers['if-none-match'] === '"v1"') return answer(response, '', { status: 304, fields });
    return answer(response, 'version 1\n', { fields });
  },
  error(request, response) {
    answer(response, 'it failed\n', { status: 500 });
  },
  async 'error-late'(request, response) {
    response.writeHead(200, { 'Content-Type': TEXT });
    response.write('first');
    await timers.setTimeout(20);
    response.destroy();
  },
  async slow(request, response, { ms }) {
    await timers.setTimeout(ms);
    answer(response, 'slow');
  },
};

async function handle(request, response) {
  const [raw, query = ''] = request.url.split(/\?(.*)/s);
  const [, name, argument] = raw.split('/');
  if (name.startsWith('echo')) return echo(request, response, request.url);
  if (name === 'status') return answer(response, `status ${argument}\n`, { status: Number(argument) });
  if (!Object.hasOwn(ROUTES, name)) return answer(response, 'missing', { status: 404 });
  const options = Object.fromEntries([...new URLSearchParams(query)].map(([key, value]) => [key, Number(value)]));
  return ROUTES[name](request, response, options);
}

/** The same, with what Express has of its own: conditions, files with ranges, cookies, failures. */
function expressApp() {
  const express = require('express');
  const app = express();
  app.disable('x-powered-by');
  app.get('/etag', (request, response) => response.set({ ETag: '"v1"', 'Cache-Control': 'max-age=60' }).send('version 1\n'));
  app.get('/redirect', (request, response) => response.redirect('/bytes?n=5'));
  app.get('/file', (request, response) => response.sendFile(path.join(__dirname, 'differential.js')));
  app.get('/error', () => { throw new Error('asked for'); });
  app.use(handle);
  app.use((error, request, response, next) => {
    if (response.headersSent) return next(error);
    return response.status(error.status ?? 500).set(error.headers ?? {}).type('text').send('it failed\n');
  });
  return http.createServer(app);
}

/** A request that is aborted rejects; by itself that would end a process of Node. */
function guarded(request, response) {
  handle(request, response).catch(() => response.destroy());
}

const server = process.argv[2] === 'express' ? expressApp() : http.createServer(guarded);
const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => offered.has('echo') && 'echo' });
sockets.on('connection', (peer) => {
  peer.on('error', () => {});
  peer.on('message', (data, binary) => peer.send(data, { binary }));
});
server.on('upgrade', (request, socket, head) => {
  if (request.url.startsWith('/ws-refused')) {
    return void socket.end('HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno');
  }
  return void sockets.handleUpgrade(request, socket, head, (peer) => sockets.emit('connection', peer, request));
});
maitred.listen(server, { host: '127.0.0.1', onShutdown: () => sockets.clients.forEach((peer) => peer.close(1001)) });
