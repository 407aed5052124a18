'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');

const { ask, missing, start } = require('./maitred');

const LARGE = Buffer.from('0123456789abcdef'.repeat(300_000));
const SMALL = Buffer.from('small');

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'maitred-files-'));
fs.writeFileSync(path.join(directory, 'large'), LARGE);
fs.writeFileSync(path.join(directory, 'small'), SMALL);
fs.writeFileSync(path.join(directory, 'empty'), '');
fs.writeFileSync(path.join(directory, 'größe'), SMALL);
fs.symlinkSync('/etc/passwd', path.join(directory, 'outside'));
fs.mkdirSync(path.join(directory, 'directory'));
after(() => fs.rmSync(directory, { recursive: true }));

/** The same for an application behind Maitred and alone; `request(url, options)` asks it. */
function sendFileTests(request) {
  test('whole files', async () => {
    for (const [name, bytes] of [['large', LARGE], ['small', SMALL], ['empty', Buffer.alloc(0)]]) {
      const { status, headers, body } = await request(`/whole?name=${name}`);
      assert.deepEqual([status, headers['content-length']], [200, String(bytes.length)]);
      assert.ok(body === bytes.toString(), `${name}: another body`);
      const head = await request(`/whole?name=${name}`, { method: 'HEAD' });
      assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, String(bytes.length), '']);
    }
  });

  test('parts, which end with the file at the latest', async () => {
    const { length } = LARGE;
    for (const [name, start, end] of [
      ['large', 1, 100], ['large', 5, 2_000_004], ['large', 3_000_000, undefined], ['large', 16, length + 5],
      ['large', length, undefined],
      ['large', length - 1, length - 1], ['large', 7, 6], ['small', 2, 3], ['empty', 0, undefined], ['empty', 0, 10],
    ]) {
      const bytes = { large: LARGE, small: SMALL, empty: Buffer.alloc(0) }[name];
      const wanted = bytes.subarray(start, end === undefined ? undefined : end + 1);
      const query = `name=${name}&start=${start}${end === undefined ? '' : `&end=${end}`}`;
      const { status, headers, body } = await request(`/part?${query}`);
      assert.deepEqual([status, headers['content-length']], [206, String(wanted.length)], query);
      assert.ok(body === wanted.toString(), `${query}: another body`);
    }
  });

  test('open files, which stay open', async () => {
    for (const [url, bytes] of [['/opened', LARGE], ['/handle', LARGE.subarray(1_000_000)], ['/opened', LARGE]]) {
      assert.ok((await request(url)).body === bytes.toString(), url);
    }
  });

  test('what is not there, is no file, or has no such part', async () => {
    for (const [query, wanted] of [
      ['name=none&start=0', 404], ['name=large/none&start=0', 404], ['name=directory&start=0', 404], ['name=small&start=6', 416],
      ['name=small&start=-1', 500], ['name=small&start=x', 500], ['name=small&start=3&end=1', 500],
    ]) {
      assert.equal((await request(`/part?${query}`)).status, wanted, query);
    }
  });

  test('middleware that changes the body', async () => {
    const { headers, body } = await request('/coded');
    assert.deepEqual([headers['content-encoding'], headers['content-length']], ['upper', undefined]);
    assert.ok(body === LARGE.toString().toUpperCase(), 'another body');
  });

  test('no descriptor is left, and none is closed twice', async () => {
    const wholes = ['large', 'small', 'none', 'directory'].map((name) => `/whole?name=${name}`);
    const urls = [...wholes, '/part?name=small&start=6', '/coded'];
    const round = () => Promise.all(urls.flatMap((url) => [request(url), request(url, { method: 'HEAD' })]));
    await round();
    const count = async () => Number((await request('/descriptors')).body);
    const first = await count();
    for (let n = 0; n < 5; n += 1) await round();
    // Connections that were used at the same time may differ by a few.
    assert.ok(await count() <= first + urls.length, `${first} descriptors have become ${await count()}`);
  });
}

for (const transport of ['direct', 'relay']) {
  describe(`files, ${transport}`, { skip: missing }, () => {
    let maitred;
    before(async () => {
      const pool = `transport = "${transport}"\nenv = { FILES = "${directory}" }\nsendfile_root = "${directory}"`;
      maitred = await start('files.js', { pool });
    });
    after(() => maitred?.stop());
    sendFileTests((...request) => maitred.ask(...request));

    test('a response that has begun is not answered twice', async () => {
      assert.ok((await maitred.ask('/twice')).body === LARGE.toString());
      await maitred.says(/ERR_HTTP_HEADERS_SENT/);
    });

    test('files that X-Sendfile names', async () => {
      for (const [name, bytes] of [['large', LARGE], ['small', SMALL], ['empty', Buffer.alloc(0)]]) {
        const { status, headers, body } = await maitred.ask(`/named?name=${name}`);
        assert.deepEqual([status, headers['content-length'], headers['x-sendfile']], [200, String(bytes.length), undefined]);
        assert.ok(body === bytes.toString(), `${name}: another body`);
        const head = await maitred.ask(`/named?name=${name}`, { method: 'HEAD' });
        assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, String(bytes.length), '']);
      }
      const none = await maitred.ask('/named-not-modified');
      assert.deepEqual([none.status, none.headers['x-sendfile'], none.body], [304, undefined, '']);
      for (const name of ['none', 'directory', '../../etc/passwd', 'outside']) {
        assert.equal((await maitred.ask(`/named?name=${name}`)).status, 500, name);
      }
      await maitred.says(/bad response of the application: X-Sendfile: \/etc\/passwd is not below/);
      const accents = await maitred.ask(`/named?name=${encodeURIComponent('größe')}`);
      assert.deepEqual([accents.status, accents.body], [200, 'small']);
    });

    test('what is written beside a named file does not reach the next response', async () => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      const answers = await Promise.all(['/named-and-written', '/whole?name=small'].map((url) => maitred.ask(url, { agent })));
      assert.ok(answers[0].body === LARGE.toString() && answers[1].body === 'small');
      agent.destroy();
    });

    test('a client that reads slowly holds nothing up, and one that goes leaves nothing', async () => {
      const count = async () => Number((await maitred.ask('/descriptors', { agent: false })).body);
      const first = await count();
      const slow = [];
      for (let n = 0; n < 20; n += 1) {
        const request = http.get({ port: maitred.port, path: '/whole?name=large', agent: false });
        const [response] = await once(request, 'response');
        response.on('error', () => {});
        slow.push(response);
      }
      assert.equal((await maitred.ask('/whole?name=small')).body, 'small');
      // Connections that are not read; not their files.
      assert.ok(await count() <= first + slow.length + 1, 'files are kept open while clients read');
      let taken = 0;
      for await (const piece of slow[0]) taken += piece.length;
      assert.equal(taken, LARGE.length);
      slow.forEach((response) => response.destroy());
    });
  });
}

describe('files that X-Sendfile names, without a root', { skip: missing }, () => {
  test('are a field of the response as any other', async () => {
    const maitred = await start('files.js', { pool: `env = { FILES = "${directory}" }` });
    const { status, headers, body } = await maitred.ask('/named?name=small');
    assert.deepEqual([status, headers['x-sendfile'], body], [200, path.join(directory, 'small'), '']);
    await maitred.stop();
  });
});

describe('files, without Maitred', () => {
  let child;
  let port;
  before(async () => {
    const env = { ...process.env, FILES: directory, PORT: '0' };
    child = spawn(process.execPath, [path.join(__dirname, 'apps', 'files.js')], { env, stdio: ['ignore', 'pipe', 'ignore'] });
    const [text] = await once(child.stdout.setEncoding('utf8'), 'data');
    port = Number(/:(\d+)/.exec(text)[1]);
  });
  after(() => child?.kill('SIGKILL'));
  sendFileTests((url, options) => ask(port, url, options));
});
