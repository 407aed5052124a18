'use strict';
// What the application sees of its sockets: properties, and events in their order. Each case has a name, which is the path of
// its request; `/log/NAME` is answered with what was seen when the socket of that case has closed, `/begun/NAME` when the case
// says that it has begun.

const { AsyncLocalStorage } = require('node:async_hooks');
const http = require('node:http');
const net = require('node:net');
const { Duplex } = require('node:stream');

const maitred = require('../../lib');

const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n';
const BIG = Buffer.alloc(8 << 20, 'b');
// More than the kernel takes for a client that does not read (tcp(7): tcp_wmem is 4 MiB at most).
const TOO_MUCH = Buffer.alloc(24 << 20, 'b');
const store = new AsyncLocalStorage();
const logs = new Map();

/** What stands under a name: the lines of a case, and a promise of its end. */
function logOf(name) {
  if (!logs.has(name)) {
    const log = { lines: [] };
    log.closed = new Promise((resolve) => { log.close = resolve; });
    log.begun = new Promise((resolve) => { log.begin = resolve; });
    logs.set(name, log);
  }
  return logs.get(name);
}

function properties(socket) {
  const { address, family, port } = socket.address();
  return {
    instance: [socket instanceof net.Socket, socket instanceof Duplex],
    state: [socket.readyState, socket.pending, socket.connecting, socket.destroyed, socket.closed, socket.errored],
    streams: [socket.readable, socket.writable, socket.readableEnded, socket.writableEnded, socket.writableFinished],
    queue: [socket.writableLength, socket.bufferSize, socket.writableHighWaterMark, socket.writableNeedDrain, socket.isPaused()],
    remote: [socket.remoteAddress, socket.remoteFamily, typeof socket.remotePort],
    local: [socket.localAddress, socket.localFamily, typeof socket.localPort],
    address: [address, family, typeof port, port === socket.localPort],
    bytes: [socket.bytesRead > 0, socket.bytesWritten > 0],
    // On a connection that was kept it is 0.
    others: [socket.timeout ?? 0, socket.encrypted, socket.allowHalfOpen, socket.writableCorked, typeof socket.server],
  };
}

/** What a function does: its result, or the code of what it throws. */
function outcome(socket, run) {
  try {
    const result = run();
    return result === socket ? 'this' : typeof result;
  } catch (error) {
    return error.code;
  }
}

function calls(socket) {
  return {
    noDelay: outcome(socket, () => socket.setNoDelay()),
    keepAlive: outcome(socket, () => socket.setKeepAlive(true, 1000)),
    ref: outcome(socket, () => socket.unref().ref()),
    timeout: outcome(socket, () => socket.setTimeout(60_000)),
    timeoutOff: [socket.timeout, outcome(socket, () => socket.setTimeout(0)), socket.timeout],
    timeoutNegative: outcome(socket, () => socket.setTimeout(-1)),
    timeoutText: outcome(socket, () => socket.setTimeout('1')),
    timeoutCallback: [outcome(socket, () => socket.setTimeout(60_000, 'x')), outcome(socket, () => socket.setTimeout(0))],
    reset: typeof socket.resetAndDestroy,
    soon: typeof socket.destroySoon,
  };
}

/** Notes the events of a socket, or of a request or response. */
function watch(name, of, emitter, events) {
  const log = logOf(name);
  for (const event of events) {
    emitter.on(event, (...values) => {
      const seen = values.map((value) => (value instanceof Error ? value.code : value));
      log.lines.push([`${of} ${event}`, ...seen.filter((value) => typeof value !== 'object' || value === null)]);
    });
  }
  if (of === 'socket') emitter.once('close', () => log.close());
  return log;
}

const REQUESTS = {
  // The connection may be kept for others: the case ends with its second response.
  properties(request, response, log) {
    log.times = (log.times ?? 0) + 1;
    if (log.times === 2) response.on('close', () => setImmediate(() => setImmediate(log.close)));
    log.lines.push(properties(request.socket), calls(request.socket));
    log.lines.push([response.socket === request.socket, request.socket.server === server, log.store ?? null]);
    const before = request.socket.bytesWritten;
    response.end('0123456789', () => {
      const { socket } = request;
      setImmediate(() => log.lines.push(['grown', socket.bytesWritten - before > 10, socket.bytesRead > 0]));
    });
  },
  silent(request, response, log) {
    // The client goes away.
    watch('silent', 'request', request, ['aborted', 'error', 'end', 'close']);
    watch('silent', 'response', response, ['error', 'finish', 'close']);
    request.on('close', () => {
      log.lines.push(['then', request.aborted, request.destroyed, request.complete, response.writableEnded]);
    });
    request.resume();
    response.write('begun');
  },
  destroyed(request, response, log) {
    watch('destroyed', 'request', request, ['aborted', 'error', 'end', 'close']);
    watch('destroyed', 'response', response, ['error', 'finish', 'close']);
    request.resume();
    response.write('begun');
    const { socket } = request;
    // That of a net.Socket is not known afterwards, unless it was asked for before.
    log.lines.push(socket.remoteAddress);
    socket.once('close', () => log.lines.push(properties(socket), socket.setTimeout(5) === socket));
    setImmediate(() => socket.destroy(Object.assign(new Error('asked for'), { code: 'EASKED' })));
  },
  timeout(request, response, log) {
    response.on('close', () => setImmediate(log.close));
    watch('timeout', 'request', request, ['timeout', 'close']);
    watch('timeout', 'response', response, ['timeout', 'finish', 'close']);
    response.setTimeout(20);
    request.socket.once('timeout', () => response.end('late'));
  },
  'timeout-server'(request, response) {
    // There is no listener for the event, so node:http destroys the socket.
    watch('timeout-server', 'response', response, ['finish', 'close']);
    response.write('begun');
    request.socket.setTimeout(20);
  },
};

const KEPT = new Set(['properties', 'timeout']);

const UPGRADES = {
  echo(socket, head, log) {
    socket.on('data', (data) => {
      log.lines.push(['echo', data.length, socket.readyState]);
      socket.write(data);
      log.lines.push(socket.bytesWritten - SWITCH.length);
    });
    socket.on('end', () => {
      log.lines.push(['half', socket.readyState, socket.readable, socket.writable]);
      socket.write('bye');
      socket.end();
      log.lines.push(['ended', socket.readyState, socket.writableEnded]);
    });
    log.lines.push(properties(socket), calls(socket));
  },
  pressure(socket, head, log) {
    const before = socket.bytesWritten;
    log.lines.push(socket.write(TOO_MUCH), socket.write('x'));
    log.lines.push([socket.writableLength > 0, socket.bufferSize === socket.writableLength, socket.writableNeedDrain]);
    log.lines.push(socket.bytesWritten - before);
    log.begin();
    socket.once('drain', () => {
      log.lines.push(['drained', socket.writableLength, socket.bytesWritten - before]);
      socket.end();
    });
    socket.resume();
  },
  idle(socket, head, log) {
    socket.setTimeout(20);
    socket.once('timeout', () => {
      log.lines.push(properties(socket));
      // It does not end the connection, and comes again when something has happened since.
      socket.write('still there');
      socket.once('timeout', () => socket.end());
    });
    socket.resume();
  },
  paused(socket, head, log) {
    socket.pause();
    socket.write('paused');
    setTimeout(() => {
      log.lines.push(['while paused', socket.isPaused(), log.lines.some(([name]) => name === 'socket data')]);
      socket.resume();
    }, 50);
    socket.on('end', () => socket.end());
  },
  corked(socket, head, log) {
    socket.cork();
    socket.write('one ');
    socket.write('two');
    log.lines.push([socket.writableCorked, socket.writableLength, socket.bytesWritten - SWITCH.length]);
    socket.uncork();
    log.lines.push([socket.writableCorked, socket.writableLength, socket.bytesWritten - SWITCH.length]);
    socket.end();
    socket.resume();
  },
  soon(socket, head, log) {
    socket.write(BIG);
    socket.destroySoon();
    log.lines.push([socket.readyState, socket.writableEnded, socket.destroyed]);
    socket.resume();
  },
  reset(socket, head, log) {
    socket.resetAndDestroy();
    log.lines.push([socket.readyState, socket.destroyed, socket.pending]);
  },
  lost(socket) {
    socket.write('reset me');
    socket.resume();
  },
};

/** Upgrades that are refused in the ways in which that is mostly written. */
const REFUSALS = {
  'refuse-destroy': (socket) => {
    socket.write('HTTP/1.1 401 Unauthorized\r\n\r\n');
    socket.destroy();
  },
  'refuse-end': (socket) => socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno'),
  'refuse-finish': (socket) => {
    socket.once('finish', socket.destroy);
    socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno');
  },
};

const server = http.createServer((request, response) => {
  const [, name, of] = request.url.split('/');
  if (name === 'begun') return void logOf(of).begun.then(() => response.end());
  if (name === 'log') {
    return void logOf(of).closed.then(() => setImmediate(() => response.end(JSON.stringify(logOf(of).lines))));
  }
  const log = logOf(name);
  // A request begins outside of what the one before has left.
  log.store = store.getStore();
  if (!KEPT.has(name)) watch(name, 'socket', request.socket, ['timeout', 'drain', 'error', 'close']);
  return store.run(name, () => REQUESTS[name](request, response, log));
});
server.on('upgrade', (request, socket, head) => {
  const name = request.url.slice(1);
  const log = watch(name, 'socket', socket, ['connect', 'ready', 'timeout', 'drain', 'end', 'finish', 'error', 'close']);
  if (REFUSALS[name]) return REFUSALS[name](socket);
  socket.once('data', () => log.lines.push(['socket data']));
  log.lines.push(['before', socket.bytesWritten, socket.timeout ?? null]);
  socket.write(SWITCH);
  log.lines.push(['after', socket.bytesWritten]);
  return UPGRADES[name](socket, head, log);
});
maitred.listen(server, { host: '127.0.0.1' }).then(() => {
  if (!maitred.isBehindMaitred() && server.address()) console.log(`http://127.0.0.1:${server.address().port}`);
});
