'use strict';
// node:http with what needs care: streams, aborted requests, upgrades, bodies that are not read.

const fs = require('node:fs');
const http = require('node:http');
const { Readable } = require('node:stream');
const timers = require('node:timers/promises');

const { WebSocketServer } = require('ws');

const maitred = require('../../lib');

let produced = 0;
let closed = 0;
let told = [];
const asked = [];
let answered = 0;
const waiting = [];
const texts = [];
const piece = Buffer.alloc(64 * 1024, 'z');

/** Endless, and counts what was asked of it. */
function* pieces() {
  for (;;) {
    produced += piece.length;
    yield piece;
  }
}

function answerText({ character, encoding, times, parts, response }) {
  response.setHeader('X-Character', character);
  if (parts === 1) return void response.end(character.repeat(times), encoding);
  response.setHeader('Content-Length', Buffer.byteLength(character, encoding) * times);
  response.write(character.repeat(times / 2), encoding);
  return void setImmediate(() => response.end(character.repeat(times / 2), encoding));
}

const ROUTES = {
  '/endless'(request, response) {
    response.on('close', () => { closed += 1; });
    Readable.from(pieces()).pipe(response);
  },
  '/counts'(request, response) {
    response.end(JSON.stringify({ produced, closed, pid: process.pid, memory: process.memoryUsage().rss }));
  },
  async '/events'(request, response) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (let n = 0; n < 12; n += 1) {
      response.write(`data: ${n}\n\n`);
      await timers.setTimeout(100);
    }
    response.end();
  },
  '/trailers'(request, response) {
    response.writeHead(200, { Trailer: 'X-Sum' });
    response.write('body');
    response.addTrailers({ 'X-Sum': '4' });
    response.end();
  },
  // Of all requests that have come here: a user stays a request's, whoever uses the socket afterwards.
  '/users'(request, response) {
    asked.push(request);
    response.end(JSON.stringify(asked.map(({ maitred }) => maitred)));
  },
  '/early'(request, response) {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' }, () => {
      response.writeProcessing(() => response.end('final after both'));
    });
  },
  // As the usual snippet of an event stream does.
  '/hop'(request, response) {
    response.writeHead(200, {
      'Content-Type': 'text/event-stream', Connection: 'keep-alive, X-Own', 'Keep-Alive': 'timeout=5',
      'Proxy-Connection': 'keep-alive', 'Transfer-Encoding': 'chunked', Upgrade: 'h2c', 'X-Own': '1', 'X-Other': '2',
    });
    response.end('data: 1\n\n');
  },
  '/426'(request, response) {
    response.writeHead(426, { Upgrade: 'websocket', Connection: 'Upgrade' }).end('no');
  },
  '/close'(request, response) {
    response.setHeader('Connection', 'close');
    response.end('kept all the same');
  },
  '/too-large'(request, response) {
    response.statusCode = 413;
    response.end('no');
  },
  '/destroy'(request) {
    request.socket.destroy();
  },
  '/socket'(request, response) {
    const { socket } = request;
    socket.mark ??= 0;
    socket.mark += 1;
    response.end(JSON.stringify({ mark: socket.mark, address: socket.address(), remote: socket.remoteAddress }));
  },
  // Says nothing, or nothing more, and notes the events that it gets.
  '/silent'(request, response) {
    told = [];
    for (const event of ['aborted', 'close']) request.on(event, () => told.push(`request ${event}`));
    response.on('close', () => told.push('response close'));
    request.socket.on('close', (failed) => told.push(`socket close ${failed}`));
    request.resume();
  },
  '/silent-stream'(request, response) {
    ROUTES['/silent'](request, response);
    response.write('begun');
  },
  '/told'(request, response) {
    response.end(JSON.stringify(told));
  },
  '/listener'(request, response) {
    request.socket.setMaxListeners(0).on('close', () => {});
    response.end(String(request.socket.listenerCount('close')));
  },
  '/timeout'(request, response) {
    response.setTimeout(100, () => response.end('timed out'));
  },
  // Large texts, all of them in one turn of the event loop.
  '/text'(request, response) {
    const asking = JSON.parse(request.headers['x-text']);
    texts.push({ ...asking, response });
    if (texts.length === asking.together) texts.splice(0).forEach(answerText);
  },
  // Answers eight requests in one turn of the event loop, and before each waits, as everything else does, until the client has
  // noted the responses before it in a file: a byte for each.
  '/noted'(request, response) {
    waiting.push(response);
    if (waiting.length < 8) return;
    const latest = performance.now() + 250;
    for (const one of waiting.splice(0)) {
      let isNoted;
      do isNoted = fs.statSync(request.headers['x-file']).size >= answered;
      while (!isNoted && performance.now() < latest);
      one.end(String(isNoted));
      answered += 1;
    }
  },
  '/slow'(request, response) {
    setTimeout(() => response.end('slow'), 300);
  },
};

const server = http.createServer((request, response) => {
  const route = ROUTES[request.url];
  if (route) return route(request, response);
  response.statusCode = 404;
  return response.end('missing');
});
const sockets = new WebSocketServer({ server, path: '/ws' });
sockets.on('connection', (peer) => peer.on('message', (data, binary) => peer.send(data, { binary })));
maitred.listen(server, { onShutdown: () => sockets.clients.forEach((peer) => peer.close(1001)) });
