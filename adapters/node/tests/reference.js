'use strict';
// The reference application of the conformance kit (adapters/conformance/README.md).

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { Readable } = require('node:stream');
const { finished } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const timers = require('node:timers/promises');

const maitred = require('../lib');

function answer(response, body, status = 200, type = 'text/plain') {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces);
}

function latin1OfPath(text) {
  return text.replace(/%([0-9a-f]{2})/gi, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
}

let directory = null;
const files = new Map();

/** The name of a file of so many bytes: 0, 1, … 250, 0, … It is there until the process ends. */
function nameOf(size) {
  if (!directory) {
    directory = fs.mkdtempSync(path.join(os.tmpdir(), 'maitred-reference-'));
    process.on('exit', () => fs.rmSync(directory, { recursive: true, force: true }));
  }
  const name = path.join(directory, String(size));
  if (!fs.existsSync(name)) fs.writeFileSync(name, Buffer.alloc(size, Buffer.from(Array.from({ length: 251 }, (_, n) => n))));
  return name;
}

/** The descriptor of such a file. */
function fileOf(size) {
  if (!files.has(size)) files.set(size, fs.openSync(nameOf(size), 'r'));
  return files.get(size);
}

const HANDLERS = {
  async echo(request, response) {
    const { socket } = request;
    const [target, ...query] = request.url.split('?');
    const seen = {
      method: request.method,
      mount: socket.mount ?? '',
      path: latin1OfPath(target).slice((socket.mount ?? '').length),
      query: query.join('?'),
      version: `HTTP/${request.httpVersion}`,
      scheme: socket.encrypted ? 'https' : 'http',
      remote: `${socket.remoteAddress} ${socket.remotePort}`,
      local: `${socket.localAddress} ${socket.localPort}`,
      headers: request.headers,
      body: (await bodyOf(request)).toString('base64'),
    };
    answer(response, JSON.stringify(seen), 200, 'application/json');
  },
  user(request, response) {
    const { user, authType } = request.maitred;
    answer(response, user === null ? '' : `${user} ${authType ?? ''}`);
  },
  bytes(request, response, count) {
    answer(response, 'x'.repeat(count));
  },
  async chunks(request, response, count, size) {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    const piece = Buffer.alloc(size, 'y');
    function* pieces() {
      for (let n = 0; n < count; n += 1) yield piece;
    }
    await pipeline(Readable.from(pieces()), response).catch(() => {});
  },
  file(request, response, size) {
    response.setHeader('Content-Type', 'application/octet-stream');
    return maitred.sendFile(response, fileOf(size));
  },
  sendfile(request, response, size) {
    response.setHeader('X-Sendfile', nameOf(size));
    response.end('not sent');
  },
  'sendfile-path'(request, response) {
    const named = request.url.slice(request.url.indexOf('?') + 1);
    response.setHeader('X-Sendfile', Buffer.from(decodeURIComponent(named)).toString('latin1'));
    answer(response, 'instead');
  },
  'early-hints'(request, response) {
    response.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' }, () => answer(response, 'hinted'));
  },
  trailers(request, response) {
    // node:http throws if they are announced where there are no chunks.
    if (request.method !== 'HEAD' && request.httpVersion === '1.1') response.setHeader('Trailer', 'X-Sum');
    response.write('bo');
    response.addTrailers({ 'X-Sum': '4', 'Content-Length': '9' });
    response.end('dy');
  },
  426(request, response) {
    response.setHeader('Upgrade', 'websocket');
    answer(response, 'upgrade to websocket', 426);
  },
  status(request, response, status) {
    response.statusCode = status;
    response.end();
  },
  error() {
    throw new Error('asked for');
  },
  async 'error-late'(request, response) {
    response.write('first');
    await timers.setTimeout(1);
    throw new Error('asked for, late');
  },
  short(request, response) {
    response.writeHead(200, { 'Content-Length': 10 });
    response.end('12345');
  },
  long(request, response) {
    response.writeHead(200, { 'Content-Length': 5 });
    response.end('1234567890');
  },
  async slow(request, response, milliseconds) {
    // A timer may be early by a fraction of a millisecond.
    await timers.setTimeout(milliseconds + 1);
    answer(response, 'slow');
  },
  inject(request, response) {
    response.setHeader('X-Value', 'a\r\nInjected: yes');
    answer(response, 'not reached');
  },
  hop(request, response) {
    response.setHeader('Connection', 'keep-alive');
    response.setHeader('Keep-Alive', 'timeout=5');
    response.setHeader('Proxy-Connection', 'keep-alive');
    response.setHeader('Transfer-Encoding', 'chunked');
    response.end('hop');
  },
  async sum(request, response) {
    const hash = crypto.createHash('sha256');
    let bytes = 0;
    for await (const piece of request) {
      bytes += piece.length;
      hash.update(piece);
    }
    answer(response, `${bytes} ${hash.digest('hex')}`);
  },
  async 'request-trailers'(request, response) {
    assert.deepEqual([request.rawTrailers, { ...request.trailers }], [[], {}]);
    const { length } = await bodyOf(request);
    const found = Object.entries(request.trailers);
    const each = Object.entries(request.trailersDistinct);
    assert.deepEqual(each.map(([name, values]) => [name, values.join(', ')]), found);
    assert.equal(request.rawTrailers.length, each.reduce((sum, [, values]) => sum + 2 * values.length, 0));
    const lines = found.map(([name, value]) => `${name}: ${value}\n`).sort();
    answer(response, Buffer.from(`${length}\n${lines.join('')}`, 'latin1'));
  },
  wait(request, response) {
    return new Promise((resolve) => { finished(response, () => resolve()); });
  },
};

function handle(request, response) {
  const mount = request.socket.mount ?? '';
  const [, name, ...rest] = request.url.slice(mount.length).split('?')[0].split('/');
  if (!Object.hasOwn(HANDLERS, name)) return answer(response, 'not found', 404);
  return HANDLERS[name](request, response, ...rest.filter((part) => /^\d+$/.test(part)).map(Number));
}

/** The server's 'upgrade' events, if the package `ws` is installed. */
function addWebSockets(server) {
  let WebSocketServer;
  try {
    ({ WebSocketServer } = require('ws'));
  } catch {
    return null;
  }
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => offered.has('echo') && 'echo' });
  sockets.on('connection', (peer) => {
    peer.on('error', () => {});
    peer.on('message', (data, binary) => peer.send(data, { binary }));
  });
  server.on('upgrade', (request, socket, head) => {
    if (request.url === '/ws') {
      return void sockets.handleUpgrade(request, socket, head, (peer) => sockets.emit('connection', peer));
    }
    const status = request.url === '/ws-refused' ? '403 Forbidden' : '404 Not Found';
    socket.end(`HTTP/1.1 ${status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno`);
    return undefined;
  });
  return sockets;
}

async function guarded(request, response) {
  try {
    await handle(request, response);
  } catch (error) {
    console.error(error);
    if (response.headersSent) return void response.destroy();
    answer(response, 'Internal Server Error\n', 500);
  }
  return undefined;
}

// Half of the kit's cases run with a listener alone, so that both ways are tried.
const server = process.argv.includes('--listener') ? handle : http.createServer(guarded);
const sockets = server instanceof http.Server ? addWebSockets(server) : null;
maitred.listen(server, { onShutdown: () => sockets?.clients.forEach((peer) => peer.close(1001)) });
