'use strict';
// Requests and responses behind Maitred are as those that node:http makes when it parses itself: the same requests go to the same
// application, alone and behind, and everything that it has seen is compared.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, before, describe, test } = require('node:test');

const { ask, missing, start, startAlone } = require('./maitred');

const TWO = { 'X-Two': ['a', 'b'], Cookie: ['c=1', 'd=2'] };
/** The requests of each case. */
const CASES = {
  plain: {}, unseen: {}, later: {}, pieces: {}, together: {}, large: {}, empty: {}, flushed: {}, gone: {}, timeout: {},
  iterated: { method: 'POST', body: 'a body' }, unread: { method: 'POST', body: 'x'.repeat(1000) },
  head: { method: 'HEAD' }, duplicate: { headers: TWO }, throws: {},
};
/** Fields of a response that are the server's. */
const OTHERS = new Set(['connection', 'keep-alive', 'date', 'server', 'transfer-encoding']);

async function seen(port, name, options) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  let answer;
  try {
    // Behind another request on the connection.
    await ask(port, '/other', { agent, headers: { 'X-First': '1' } });
    const { status, headers, body } = await ask(port, `/${name}`, { agent, ...options });
    answer = [status, Object.entries(headers).filter(([field]) => !OTHERS.has(field)).sort(), body];
  } catch (error) {
    answer = error.code;
  }
  agent.destroy();
  return { answer, lines: JSON.parse((await ask(port, `/log/${name}`)).body) };
}

const WAYS = {
  direct: ['direct', ''], relay: ['relay', ''], 'the parser of node:http': ['direct', 'env = { MAITRED_PARSER = "node" }'],
};

for (const [way, [transport, more]] of Object.entries(WAYS)) {
  describe(`requests, ${way}`, { skip: missing }, () => {
    let alone;
    let behind;
    before(async () => {
      [alone, behind] = await Promise.all([
        startAlone('requests.js'), start('requests.js', { pool: `transport = "${transport}"\n${more}` }),
      ]);
    });
    after(async () => {
      await alone.stop();
      await behind.stop();
    });

    for (const [name, options] of Object.entries(CASES)) {
      test(name, async () => {
        const [wanted, found] = [await seen(alone.port, name, options), await seen(behind.port, name, options)];
        // Where nothing was written, Maitred answers by itself.
        if (name === 'gone') [found.answer, wanted.answer] = [found.answer[0], wanted.answer && 502];
        assert.deepEqual(found, wanted);
      });
    }

    test('a listener that throws costs no other request', async () => {
      const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => ask(behind.port, n % 3 ? '/other' : '/throws')));
      assert.equal(answers.filter(({ status }) => status === 200).length, 60);
      await behind.says(/caught: asked for/);
    });

    // With a parser, which is there for all requests of a connection, it is.
    test('what a listener has entered is not the next request\'s', { skip: more !== '' }, async () => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
      const asked = Array.from({ length: 200 }, (_, n) => ask(behind.port, `/entered/${n}`, { agent }));
      const answers = new Set((await Promise.all(asked)).map(({ body }) => body));
      agent.destroy();
      assert.deepEqual([...answers], ['undefined, true']);
    });

    test('requests are published', async () => {
      await ask(alone.port, '/published');
      await ask(behind.port, '/published');
      for (const { port } of [alone, behind]) await ask(port, '/plain');
      const [wanted, found] = await Promise.all([alone, behind].map(({ port }) => ask(port, '/published')));
      assert.deepEqual(JSON.parse(found.body), JSON.parse(wanted.body));
      assert.equal(JSON.parse(found.body).length, 2);
    });
  });
}
