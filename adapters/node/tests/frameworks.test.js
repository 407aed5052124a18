'use strict';

const assert = require('node:assert/strict');
const { File } = require('node:buffer');
const { createHash } = require('node:crypto');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');

const { missing, start, startExample } = require('./maitred');

describe('Express', { skip: missing }, () => {
  let maitred;
  before(async () => { maitred = await start('express.js'); });
  after(() => maitred?.stop());

  test('routes, cookies and addresses', async () => {
    const { status, headers, body } = await maitred.ask('/hello/caf%C3%A9?x=1');
    assert.equal(status, 200);
    assert.deepEqual(JSON.parse(body), { hello: 'café', ip: '127.0.0.1', host: '127.0.0.1' });
    assert.deepEqual(headers['set-cookie'], ['a=1; Path=/', 'b=2; Path=/']);
    assert.equal(headers.connection, undefined);
  });

  test('bodies in the frame and beside it', async () => {
    for (const size of [10, 60_000, 5_000_000]) {
      const body = JSON.stringify({ text: 'y'.repeat(size) });
      const answer = await maitred.ask('/sum', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
      assert.deepEqual(JSON.parse(answer.body), { length: body.length });
    }
  });

  test('304 and HEAD', async () => {
    const first = await maitred.ask('/etag');
    const second = await maitred.ask('/etag', { headers: { 'if-none-match': first.headers.etag } });
    assert.deepEqual([second.status, second.body], [304, '']);
    const head = await maitred.ask('/etag', { method: 'HEAD' });
    assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '19', '']);
  });

  test('files and ranges', async () => {
    const { status, body, headers } = await maitred.ask('/range', { headers: { range: 'bytes=1-10' } });
    assert.deepEqual([status, body, headers['content-length']], [206, 'use strict', '10']);
  });

  test('errors', async () => {
    for (const url of ['/fails', '/rejects']) {
      const { status, body } = await maitred.ask(url);
      assert.deepEqual([status, body], [500, 'failed']);
    }
    assert.equal((await maitred.ask('/missing')).status, 404);
  });
});

describe('Fastify', { skip: missing }, () => {
  test('schemas, and its end', async () => {
    const maitred = await start('fastify.js');
    try {
      const hello = await maitred.ask('/hello/you');
      assert.deepEqual(JSON.parse(hello.body), { hello: 'you', ip: '127.0.0.1' });
      assert.equal((await maitred.ask('/missing')).status, 404);
    } finally {
      assert.match(await maitred.stop(), /closed in order/);
    }
  });
});

/** What an application of each has; those of the last two have no uploads or files of their own. */
const FRAMEWORKS = { express: '.js', fastify: '.js', koa: '.js', hono: '.mjs', nest: '.mjs' };

for (const [framework, suffix] of Object.entries(FRAMEWORKS)) {
  describe(`what ${framework} has in common with the others`, { skip: missing }, () => {
    let maitred;
    before(async () => { maitred = await start(`${framework}${suffix}`); });
    after(() => maitred?.stop());

    test('text, with the address of the client', async () => {
      const { status, headers, body } = await maitred.ask('/text');
      assert.deepEqual([status, body], [200, 'text for 127.0.0.1']);
      assert.match(headers['content-type'], /^text\/plain/);
    });

    test('JSON there and back', async () => {
      const body = JSON.stringify({ text: 'grüße', list: [1, 2.5, null] });
      const answer = await maitred.ask('/json', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
      assert.deepEqual([answer.status, answer.body], [200, body]);
    });

    test('a stream', async () => {
      const { headers, body } = await maitred.ask('/stream');
      assert.deepEqual([headers['transfer-encoding'], body], ['chunked', 'one two three']);
    });

    test('an uploaded file', { skip: framework === 'nest' && 'it has none' }, async () => {
      const data = Buffer.from('file '.repeat(600_000));
      const form = new FormData();
      form.set('title', 'größe');
      form.set('file', new File([data], 'a file.bin'));
      const sent = new Response(form);
      const headers = { 'content-type': sent.headers.get('content-type') };
      const answer = await maitred.ask('/upload', { method: 'POST', body: Buffer.from(await sent.arrayBuffer()), headers });
      assert.deepEqual(JSON.parse(answer.body), {
        fields: { title: ['größe'] }, name: 'a file.bin', size: data.length,
        sha256: createHash('sha256').update(data).digest('hex'),
      });
    });

    test('an error', async () => {
      assert.equal((await maitred.ask('/error')).status, 500);
    });

    test('a file that Maitred sends, and one that is not there', { skip: suffix === '.mjs' && 'it has none' }, async () => {
      const name = path.join(maitred.directory, 'file');
      const text = 'in a file '.repeat(50_000);
      fs.writeFileSync(name, text);
      const found = await maitred.ask(`/file?name=${encodeURIComponent(name)}`);
      assert.ok(found.status === 200 && found.body === text);
      assert.equal((await maitred.ask('/file?name=/nowhere')).status, 404);
    });
  });
}

describe('Hono', { skip: missing }, () => {
  test('events, URLs, and the signal of a request whose client goes', async () => {
    const maitred = await start('hono.mjs');
    assert.match((await maitred.ask('/events')).body, /^(data: event\nid: \d\n\n){3}$/);
    assert.equal((await maitred.ask('/url?a=b')).body, `http://127.0.0.1:${maitred.port}/url?a=b`);
    const request = http.get({ port: maitred.port, path: '/wait', agent: false });
    const [response] = await once(request, 'response');
    await once(response, 'data');
    response.on('error', () => {});
    request.destroy();
    const signal = AbortSignal.timeout(30_000);
    while ((await maitred.ask('/aborted')).body !== '1') signal.throwIfAborted();
    await maitred.stop();
  });
});

describe('NestJS', { skip: missing }, () => {
  test('events, and its shutdown hooks', async () => {
    const maitred = await start('nest.mjs');
    const events = await maitred.ask('/events');
    assert.equal(events.body.match(/data: \d\n/g).length, 3);
    assert.match(await maitred.stop(), /closed in order: SIGTERM/);
  });
});

describe('examples/node-express', { skip: missing }, () => {
  test('does what its text says', async (context) => {
    const maitred = await startExample('node-express');
    if (!maitred) return context.skip('npm ci was not run in examples/node-express');
    assert.match((await maitred.ask('/')).body, /^Hello 127\.0\.0\.1, from process \d+\n$/);
    const body = 'y'.repeat(1_000_000);
    const answer = await maitred.ask('/upper', { method: 'POST', body, headers: { 'content-type': 'text/plain' } });
    assert.equal(answer.body, body.toUpperCase());
    return maitred.stop();
  });
});
