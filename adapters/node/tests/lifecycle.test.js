'use strict';
// Programs that listen by themselves, and servers that are closed.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const path = require('node:path');
const { describe, test } = require('node:test');

const WebSocket = require('ws');

const { missing, start } = require('./maitred');

const NODE = ['--require', path.join(__dirname, '..', 'lib', 'register.js')];

/** Waits until the slow request is with the application. */
async function begun(maitred) {
  const signal = AbortSignal.timeout(30_000);
  while ((await maitred.json('/')).slow === 0) signal.throwIfAborted();
}

for (const secure of ['', '1']) {
  describe(`a program that knows nothing of Maitred${secure && ', with https'}`, { skip: missing }, () => {
    const pool = `env = { MAITRED_PORT = "3000", SECURE = "${secure}" }`;

    test('gets the requests of the server that it has listen, and ends as it always does', async () => {
      const maitred = await start('unchanged.js', { node: NODE, pool });
      const first = await maitred.ask('/');
      // More than maxRequestsPerSocket on one connection, which is Maitred's to decide.
      for (let n = 0; n < 3; n += 1) assert.equal((await maitred.ask('/')).status, 200);
      const { count, ...seen } = JSON.parse(first.body);
      // TLS is between the client and Maitred: here there is none. What Maitred has passed on is not in the environment.
      assert.deepEqual(seen, { listening: true, address: '127.0.0.1', port: 3000, slow: 0, secure: false });
      assert.ok(count >= 1);
      await maitred.says(/listening, metrics on \d+/);
      const peer = new WebSocket(`ws://127.0.0.1:${maitred.port}/`);
      await once(peer, 'open');
      peer.send('hello');
      assert.equal(String((await once(peer, 'message'))[0]), 'hello');
      peer.terminate();
      const slow = maitred.ask('/slow', { agent: false });
      await begun(maitred);
      const [said, answer] = await Promise.all([maitred.stop(), slow]);
      assert.match(answer.body, /^slow, /);
      assert.match(said, /closed: undefined/);
      assert.doesNotMatch(said, /WARN.*(killed|ended)/);
    });

    test('restarts without losing a request', async () => {
      const maitred = await start('unchanged.js', { node: NODE, pool });
      await maitred.ask('/');
      const slow = maitred.ask('/slow', { agent: false });
      await begun(maitred);
      maitred.child.kill('SIGHUP');
      const answer = await slow;
      assert.equal(answer.status, 200);
      assert.equal((await maitred.ask('/')).status, 200);
      await maitred.stop();
    });
  });
}

describe('Apollo Server', { skip: missing }, () => {
  test('answers queries, and is stopped', async () => {
    const maitred = await start('apollo.js', { node: NODE });
    const body = JSON.stringify({ query: 'query Q($name: String) { hello(name: $name) address }', variables: { name: 'grüße' } });
    const answer = await maitred.ask('/', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    assert.deepEqual(JSON.parse(answer.body), { data: { hello: 'Hello grüße', address: '127.0.0.1' } });
    await maitred.says(/ready at http:\/\/localhost:4000\//);
    assert.doesNotMatch(await maitred.stop(), /WARN.*(killed|ended)/);
  });
});
