'use strict';
// The application's sockets behind Maitred are as those of node:net: the same script is run against the same application, alone
// and behind, and everything that it has seen is compared.

const assert = require('node:assert/strict');
const { EventEmitter, once } = require('node:events');
const net = require('node:net');
const { after, before, describe, test } = require('node:test');

const { ask, missing, start, startAlone } = require('./maitred');

const WAIT_MS = 30_000;

/** One client: it can wait for what comes. */
class Client {
  constructor(port) {
    this.socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    this.port = port;
    this.text = '';
    this.error = null;
    this.ended = false;
    this.events = new EventEmitter();
    const end = () => {
      this.ended = true;
      this.events.emit('something');
    };
    this.socket.setEncoding('latin1');
    this.socket.on('data', (data) => {
      this.text += data;
      this.events.emit('something');
    });
    this.socket.on('error', (error) => { this.error = error.code; });
    this.socket.on('end', end).on('close', end);
  }

  get(path) {
    this.socket.write(`GET /${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  }

  upgrade(path) {
    this.socket.write(`GET /${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
  }

  async until(holds) {
    const signal = AbortSignal.timeout(WAIT_MS);
    while (!holds(this.text) && !this.ended) await once(this.events, 'something', { signal });
    assert.ok(holds(this.text) || this.ended);
  }

  /** What came behind the head. */
  get body() {
    return this.text.slice(this.text.indexOf('\r\n\r\n') + 4);
  }

  async end() {
    await this.until(() => false);
    this.socket.destroy();
  }
}

/** What the client does in each case, and what it has seen. */
const CASES = {
  async properties(client) {
    client.get('properties');
    await client.until((text) => text.endsWith('0123456789'));
    // The second request of the connection: something was written before.
    client.text = '';
    client.get('properties');
    await client.until((text) => text.endsWith('0123456789'));
    client.socket.destroy();
  },
  async silent(client) {
    client.get('silent');
    await client.until((text) => text.includes('begun'));
    client.socket.destroy();
  },
  async destroyed(client) {
    client.get('destroyed');
    await client.end();
    return client.text.includes('begun');
  },
  async timeout(client) {
    client.get('timeout');
    await client.until((text) => text.includes('late'));
    client.socket.destroy();
  },
  async 'timeout-server'(client) {
    client.get('timeout-server');
    await client.end();
    return client.text.includes('begun');
  },
  async echo(client) {
    client.upgrade('echo');
    await client.until((text) => text.includes('\r\n\r\n'));
    client.socket.write('hello');
    await client.until((text) => text.endsWith('hello'));
    client.socket.end();
    await client.end();
    return [client.body, client.error];
  },
  async pressure(client) {
    // It reads when the application has written: the kernel would take everything for a client that reads meanwhile.
    client.socket.pause();
    client.upgrade('pressure');
    await ask(client.port, '/begun/pressure');
    client.socket.resume();
    await client.end();
    return [client.body.length, client.error];
  },
  async idle(client) {
    client.upgrade('idle');
    await client.end();
    return [client.body, client.error];
  },
  async paused(client) {
    client.upgrade('paused');
    await client.until((text) => text.endsWith('paused'));
    client.socket.end('some data');
    await client.end();
    return [client.body, client.error];
  },
  async corked(client) {
    client.upgrade('corked');
    await client.end();
    return [client.body, client.error];
  },
  async soon(client) {
    client.upgrade('soon');
    await client.end();
    return [client.body.length, client.error];
  },
  async reset(client) {
    client.upgrade('reset');
    await client.end();
  },
  async lost(client) {
    client.upgrade('lost');
    await client.until((text) => text.endsWith('reset me'));
    client.socket.resetAndDestroy();
  },
};
// How a response is framed, and whether the connection is kept behind it, is Maitred's to decide.
for (const [name, end] of [['refuse-destroy', ''], ['refuse-end', 'no'], ['refuse-finish', 'no']]) {
  CASES[name] = async (client) => {
    client.upgrade(name);
    await client.until((text) => text.includes('\r\n\r\n') && text.endsWith(end));
    client.socket.destroy();
    return [client.text.split('\r\n')[0], client.error];
  };
}

/** What client and application have seen of one case. */
async function seen(port, name) {
  const client = new Client(port);
  try {
    const result = await CASES[name](client);
    const log = await ask(port, `/log/${name}`);
    return { client: result ?? null, server: JSON.parse(log.body) };
  } finally {
    client.socket.destroy();
  }
}

for (const transport of ['direct', 'relay']) {
  describe(`sockets as those of node:net, ${transport}`, { skip: missing }, () => {
    let alone;
    let maitred;
    before(async () => {
      alone = await startAlone('socket.js');
      maitred = await start('socket.js', { pool: `transport = "${transport}"` });
    });
    after(async () => {
      await alone?.stop();
      await maitred?.stop();
    });
    for (const name of Object.keys(CASES)) {
      test(name, async () => {
        const [wanted, found] = [await seen(alone.port, name), await seen(maitred.port, name)];
        assert.ok(wanted.server.length > 0);
        assert.deepEqual(found, wanted);
      });
    }
  });
}
