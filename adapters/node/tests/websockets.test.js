'use strict';
// Socket.IO beside other WebSockets, with the real packages.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { after, before, describe, test } = require('node:test');

const { io } = require('socket.io-client');
const WebSocket = require('ws');

const { ask, missing, start, startAlone } = require('./maitred');

const WAIT_MS = 30_000;

async function stateOf(port) {
  return JSON.parse((await ask(port, '/state')).body);
}

/** Waits until the server has looked at so many upgrades. */
async function looked(port, count) {
  const signal = AbortSignal.timeout(WAIT_MS);
  for (;;) {
    const state = await stateOf(port);
    if (state.looked >= count) return state;
    signal.throwIfAborted();
    await new Promise(setImmediate);
  }
}

async function echo(peer, text) {
  peer.send(text);
  const [data] = await once(peer, 'message', { signal: AbortSignal.timeout(WAIT_MS) });
  assert.equal(String(data), text);
}

/** The same for an application alone and behind Maitred. */
function socketTests(portOf) {
  for (const transports of [['websocket'], ['polling'], ['polling', 'websocket']]) {
    test(`Socket.IO by ${transports.join(', then ')}`, async () => {
      const client = io(`http://127.0.0.1:${portOf()}`, { transports, forceNew: true, reconnection: false });
      await once(client, 'connect');
      const { engine } = client.io;
      if (transports.length > 1 && engine.transport.name === 'polling') await once(engine, 'upgrade');
      assert.equal(engine.transport.name, transports.at(-1));
      for (const value of ['grüße', 'x'.repeat(300_000)]) {
        const answer = await client.timeout(WAIT_MS).emitWithAck('say', value);
        assert.deepEqual(answer, { value, address: '127.0.0.1', secure: false });
      }
      client.emit('binary', Buffer.from([1, 2]));
      assert.deepEqual([...(await once(client, 'binary'))[0]], [1, 2, 1, 2]);
      client.emit('everybody', 'hello');
      assert.deepEqual(await once(client, 'said'), ['hello']);
      // The server's ping comes, and is answered: the connection stays.
      await once(engine, 'heartbeat');
      assert.ok(client.connected);
      client.close();
    });
  }

  test('another WebSocket on the same server stays', async () => {
    const port = portOf();
    const { looked: before, destroyed } = await stateOf(port);
    const peer = new WebSocket(`ws://127.0.0.1:${port}/ws`);
    await once(peer, 'open');
    const state = await looked(port, before + 1);
    assert.equal(state.destroyed, destroyed);
    await echo(peer, 'still there');
    // Also without a word of the server since the handshake.
    const silent = new WebSocket(`ws://127.0.0.1:${port}/ws`);
    await once(silent, 'open');
    await looked(port, before + 2);
    await echo(silent, 'still there');
    for (const one of [peer, silent]) {
      one.close(1000);
      assert.equal((await once(one, 'close'))[0], 1000);
    }
  });

  test('an upgrade without a handler is ended', async () => {
    const port = portOf();
    const { destroyed } = await stateOf(port);
    const peer = new WebSocket(`ws://127.0.0.1:${port}/nowhere`);
    const [error] = await once(peer, 'error');
    assert.ok(error);
    const state = await looked(port, 1);
    assert.ok(state.destroyed >= destroyed && state.listening && state.port === 'number');
  });
}

describe('Socket.IO beside ws, alone', () => {
  let alone;
  before(async () => { alone = await startAlone('socketio.js'); });
  after(() => alone?.stop());
  socketTests(() => alone.port);
});

for (const transport of ['auto', 'direct', 'relay']) {
  describe(`Socket.IO beside ws, ${transport}`, { skip: missing }, () => {
    let maitred;
    before(async () => { maitred = await start('socketio.js', { pool: `transport = "${transport}"` }); });
    after(() => maitred?.stop());
    socketTests(() => maitred.port);

    test('is told when the process ends', async () => {
      const client = io(`http://127.0.0.1:${maitred.port}`, { transports: ['websocket'], forceNew: true, reconnection: false });
      await once(client, 'connect');
      const gone = once(client, 'disconnect');
      const said = await maitred.stop();
      maitred = null;
      assert.match((await gone)[0], /^(transport close|io server disconnect)$/);
      assert.match(said, /the server is closed/);
    });
  });
}
