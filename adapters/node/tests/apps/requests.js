'use strict';
// What the application sees of its requests and responses: properties, and events in their order. Each case has a name, which is
// the path of its requests; `/log/NAME` is answered with what was seen once the response of that case has closed.

const { AsyncLocalStorage } = require('node:async_hooks');
const diagnostics = require('node:diagnostics_channel');
const http = require('node:http');
const { finished } = require('node:stream');
const timers = require('node:timers/promises');

const maitred = require('../../lib');

class Incoming extends http.IncomingMessage {
  get own() { return 'own request'; }
}

class Outgoing extends http.ServerResponse {
  get own() { return 'own response'; }
}

const store = new AsyncLocalStorage();
const logs = new Map();
const published = [];

function logOf(name) {
  if (!logs.has(name)) {
    const log = { lines: [] };
    log.closed = new Promise((resolve) => { log.close = resolve; });
    logs.set(name, log);
  }
  return logs.get(name);
}

function stateOf(request, response) {
  return {
    request: [
      request.complete, request.aborted, request.readable, request.readableEnded, request.destroyed, request.closed,
      request.readableLength, request.errored?.code, request.httpVersion, request.method, request.url, request.own,
      request.upgrade,
      request.socket === request.connection, request.rawTrailers.length,
    ],
    response: [
      response.headersSent, response.finished, response.writableEnded, response.writableFinished, response.destroyed,
      response.closed, response.statusCode, response.statusMessage, response.writableLength, response.writableNeedDrain,
      response.shouldKeepAlive, response.chunkedEncoding, response.socket === null, response.own, response.req === request,
    ],
  };
}

/** Notes events of both, in their order. */
function watch({ lines }, request, response) {
  for (const name of ['data', 'end', 'close', 'aborted', 'error']) {
    request.on(name, (value) => lines.push(['request', name, value?.length ?? value?.code]));
  }
  for (const name of ['prefinish', 'finish', 'close', 'drain', 'error']) response.on(name, () => lines.push(['response', name]));
}

const CASES = {
  plain(request, response, log) {
    watch(log, request, response);
    response.setHeader('X-Set', ['a', 'b']);
    response.end('plain', () => log.lines.push('callback'));
    log.lines.push(stateOf(request, response), response.getHeaders());
  },
  async unseen(request, response, log) {
    response.writeHead(201, 'Fine', { 'Content-Length': 6 });
    response.end('unseen');
    await timers.setTimeout(20);
    log.lines.push(stateOf(request, response));
    // What is asked for too late says so.
    request.on('data', () => log.lines.push('data')).on('end', () => log.lines.push('end'));
    await new Promise((resolve) => finished(request, resolve));
    log.lines.push(stateOf(request, response));
  },
  async later(request, response, log) {
    await timers.setTimeout(5);
    watch(log, request, response);
    await timers.setTimeout(5);
    response.end(Buffer.from('later'));
  },
  async iterated(request, response, log) {
    let text = '';
    await timers.setTimeout(1);
    for await (const piece of request.setEncoding('utf8')) text += piece;
    log.lines.push(text, stateOf(request, response));
    response.end(text);
  },
  async unread(request, response, log) {
    // Alone, the body comes behind the head.
    await timers.setTimeout(20);
    response.on('finish', () => log.lines.push(stateOf(request, response)));
    response.end('unread');
  },
  pieces(request, response, log) {
    watch(log, request, response);
    const taken = [response.write('one'), response.write('two', 'latin1'), response.write(Buffer.alloc(200_000, 'x'))];
    log.lines.push(taken, response.writableNeedDrain);
    response.once('drain', () => response.end('end'));
  },
  together(request, response, log) {
    watch(log, request, response);
    log.lines.push([response.write('one'), response.write('two')]);
    response.addTrailers({ 'X-Sum': '1' });
    response.end();
  },
  large(request, response, log) {
    watch(log, request, response);
    response.end('x'.repeat(300_000));
  },
  head(request, response) {
    response.setHeader('Content-Length', 5);
    response.end('lost');
  },
  empty(request, response, log) {
    watch(log, request, response);
    response.writeHead(204).end();
  },
  flushed(request, response, log) {
    watch(log, request, response);
    response.flushHeaders();
    log.lines.push(stateOf(request, response).response);
    response.end('flushed');
  },
  async gone(request, response, log) {
    watch(log, request, response);
    await timers.setTimeout(10);
    response.destroy();
    log.lines.push(stateOf(request, response).response);
  },
  async timeout(request, response, log) {
    request.setTimeout(30, () => log.lines.push('request timeout'));
    response.setTimeout(30, () => {
      log.lines.push('response timeout');
      response.end('timeout');
    });
  },
  duplicate(request, response, log) {
    log.lines.push(request.headers['x-two'], request.headersDistinct['x-two'], request.headers.cookie);
    response.setHeader('X-Unique', ['a', 'b']);
    response.end('duplicate');
  },
  throws(request, response) {
    response.end('thrown');
    throw new Error('asked for');
  },
};

async function answer(request, response) {
  const [, name, other] = request.url.split('/');
  if (name === 'log') {
    const log = logOf(other);
    await log.closed;
    response.end(JSON.stringify(log.lines));
  } else if (name === 'published') {
    response.end(JSON.stringify(published.splice(0)));
  } else if (name === 'other') {
    response.end('other');
  } else if (name === 'entered') {
    const before = store.getStore();
    store.enterWith(request.url);
    await timers.setImmediate();
    response.end(`${before}, ${store.getStore() === request.url}`);
  }
}

const options = { IncomingMessage: Incoming, ServerResponse: Outgoing, joinDuplicateHeaders: true, uniqueHeaders: ['x-unique'] };
const server = http.createServer(options, (request, response) => {
  const [, name] = request.url.split('/');
  if (!Object.hasOwn(CASES, name)) return void answer(request, response);
  const log = logOf(name);
  response.on('close', () => setTimeout(log.close, 30));
  log.lines.push(stateOf(request, response));
  return void CASES[name](request, response, log);
});
process.on('uncaughtException', (error) => console.error(`caught: ${error.message}`));
for (const name of ['http.server.request.start', 'http.server.response.finish']) {
  diagnostics.subscribe(name, (message) => {
    if (message.request.url === '/plain') published.push([name, Object.keys(message).sort(), message.server === server]);
  });
}
maitred.listen(server, { port: process.env.PORT, host: '127.0.0.1' }).then(() => {
  if (!maitred.isBehindMaitred()) console.log(`http://127.0.0.1:${server.address().port}`);
});
