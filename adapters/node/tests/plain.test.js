'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const path = require('node:path');
const { text } = require('node:stream/consumers');
const { after, before, describe, test } = require('node:test');

const WebSocket = require('ws');

const { missing, start } = require('./maitred');

/** Repeats until it holds. */
async function until(holds) {
  const signal = AbortSignal.timeout(60_000);
  for (;;) {
    const found = await holds();
    if (found) return found;
    signal.throwIfAborted();
    await new Promise(setImmediate);
  }
}

/** Sends bytes, and gives what comes until the end of the connection. */
async function raw(port, bytes) {
  const socket = net.connect(port, '127.0.0.1');
  socket.write(bytes);
  let answer = '';
  for await (const data of socket.setEncoding('latin1')) answer += data;
  return answer;
}

/** A site whose users are ann and bob; their password is `secret`. */
const WITH_USERS = `
[[site]]
hosts = ["users.test"]
[site.basic_auth]
users = { ann = "HASH", "bob é" = "HASH" }
[[site.route]]
path = "/*"
pool = "app"
`.replaceAll('HASH', '$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.');

for (const transport of ['direct', 'relay']) {
  test(`a user is a property of its request, ${transport}`, { skip: missing }, async () => {
    const maitred = await start('plain.js', { pool: `transport = "${transport}"`, site: WITH_USERS });
    try {
      const lies = { 'Remote-User': 'root', 'X-Remote-User': 'root', 'Auth-Type': 'x', Maitred: 'root' };
      const seen = [];
      for (const user of ['ann', null, 'bob é', 'ann']) {
        const authorization = `Basic ${Buffer.from(`${user}:secret`).toString('base64')}`;
        const headers = user ? { ...lies, Host: 'users.test', Authorization: authorization } : lies;
        seen.push({ user, authType: user && 'Basic' });
        assert.deepEqual(JSON.parse((await maitred.ask('/users', { headers })).body), seen);
      }
    } finally {
      await maitred.stop();
    }
  });

  describe(`node:http, ${transport}`, { skip: missing }, () => {
    let maitred;
    before(async () => { maitred = await start('plain.js', { pool: `transport = "${transport}"` }); });
    after(() => maitred?.stop());

    test('a stream goes at the pace of its client', async () => {
      const before = await maitred.json('/counts');
      const request = http.get({ port: maitred.port, path: '/endless', agent: false });
      const [response] = await once(request, 'response');
      response.pause();
      let last = -1;
      const stuck = await until(async () => {
        const { produced } = await maitred.json('/counts');
        const same = produced === last && produced > before.produced;
        last = produced;
        return same && produced;
      });
      assert.ok(stuck - before.produced < 64_000_000, `${stuck} bytes were produced for a client that does not read`);
      let taken = 0;
      response.on('error', () => {});
      response.on('data', (data) => { taken += data.length; }).resume();
      await until(async () => taken > stuck + 1_000_000);
      request.destroy();
      await until(async () => (await maitred.json('/counts')).closed > before.closed);
    });

    test('a client that has gone is told to the application', async () => {
      const { closed } = await maitred.json('/counts');
      const request = http.get({ port: maitred.port, path: '/endless', agent: false });
      const [response] = await once(request, 'response');
      response.on('error', () => {});
      request.on('error', () => {});
      request.destroy();
      await until(async () => (await maitred.json('/counts')).closed > closed);
    });

    test('the connection is kept whatever the application says', async () => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      assert.equal((await maitred.ask('/close', { agent })).body, 'kept all the same');
      const second = await maitred.ask('/close', { agent });
      assert.deepEqual([second.body, second.local], ['kept all the same', true]);
      agent.destroy();
    });

    test('a request that says close ends the connection', async () => {
      const answer = await raw(maitred.port, 'GET /close HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      assert.match(answer, /\r\nconnection: close\r\n.*kept all the same$/is);
    });

    test('a client that says close costs the next one nothing, whatever the application says', async () => {
      for (let n = 0; n < 3; n += 1) {
        assert.match(await raw(maitred.port, 'GET /hop HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'), /^HTTP\/1\.1 200 /);
      }
      assert.equal((await maitred.ask('/hop')).status, 200);
    });

    test('pipelined requests are answered in order', async () => {
      const one = (path, close = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${close}\r\n`;
      const requests = one('/slow') + one('/socket') + one('/missing', 'Connection: close\r\n');
      const answer = await raw(maitred.port, requests);
      assert.match(answer, /\r\n\r\nslow.*"mark":.*\r\n\r\nmissing$/s);
    });

    test('HTTP/1.0 gets a stream without chunks', async () => {
      const answer = await raw(maitred.port, 'GET /events HTTP/1.0\r\n\r\n');
      assert.doesNotMatch(answer, /transfer-encoding/i);
      assert.match(answer, /\r\n\r\ndata: 0\n\n.*data: 11\n\n$/s);
    });

    test('informational responses are left out where the client may not have them, and nothing else changes', async () => {
      assert.match(await raw(maitred.port, 'GET /early HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 .*final after both$/s);
      assert.equal((await maitred.ask('/early')).body, 'final after both');
    });

    test('fields of one hop are dropped, and Upgrade in a 426 is not', async () => {
      const events = await maitred.ask('/hop');
      assert.deepEqual([events.status, events.body], [200, 'data: 1\n\n']);
      for (const name of ['connection', 'keep-alive', 'proxy-connection', 'x-own']) assert.equal(events.headers[name], undefined);
      assert.equal(events.headers['x-other'], '2');
      const required = await maitred.ask('/426');
      assert.deepEqual([required.status, required.headers.upgrade, required.headers.connection], [426, 'websocket', 'upgrade']);
    });

    test('a large body that is not read does no harm', async () => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      const body = 'n'.repeat(3_000_000);
      for (let n = 0; n < 3; n += 1) {
        assert.equal((await maitred.ask('/too-large', { method: 'POST', body, agent })).status, 413);
      }
      assert.equal((await maitred.ask('/socket', { agent })).status, 200);
      agent.destroy();
    });

    test('a socket that the application destroys costs its own request', async () => {
      const { pid } = await maitred.json('/counts');
      assert.equal((await maitred.ask('/destroy', { agent: false })).status, 502);
      assert.equal((await maitred.json('/counts')).pid, pid);
    });

    test('what the application leaves on a socket is not another client\'s', async () => {
      const marks = [];
      for (let client = 0; client < 3; client += 1) {
        const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
        for (let n = 0; n < 2; n += 1) marks.push(JSON.parse((await maitred.ask('/socket', { agent })).body).mark);
        agent.destroy();
      }
      assert.deepEqual(marks, [1, 2, 1, 2, 1, 2]);
    });

    test('listeners that are added with each request are not more and more', async () => {
      let most = 0;
      for (let n = 0; n < 2500; n += 1) most = Math.max(most, Number((await maitred.ask('/listener')).body));
      assert.ok(most >= 999 && most < 1100, `${most} listeners`);
    });

    test('large texts reach slow clients as they were written', async () => {
      const cases = [];
      for (const times of [20_000, 70_000, 900_000, 1_900_000, 9_000_000]) {
        for (const parts of [1, 2]) {
          cases.push(['a', 'utf8', times, parts], ['b', undefined, times, parts], ['\xe9', 'utf8', times, parts]);
          cases.push(['\xe8', 'latin1', times, parts]);
        }
      }
      const ask = ([character, encoding, times, parts]) => new Promise((resolve, reject) => {
        const text = JSON.stringify({ character, encoding, times, parts, together: cases.length });
        // A field of a request has no characters beyond ASCII.
        const headers = { 'X-Text': text.replace(/[^ -~]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`) };
        http.get({ port: maitred.port, path: '/text', agent: false, headers }, resolve).on('error', reject);
      });
      const responses = await Promise.all(cases.map(ask));
      for (const [n, response] of responses.entries()) {
        const [character, encoding, times] = cases[n];
        const pieces = [];
        for await (const data of response) pieces.push(data);
        const wanted = Buffer.from(character.repeat(times), encoding ?? 'utf8');
        assert.ok(Buffer.concat(pieces).equals(wanted), `${cases[n]}`);
        // node:http encodes a head as the text behind it.
        const inHead = character > '~' && encoding === 'utf8' ? Buffer.from(character).latin1Slice() : character;
        assert.equal(response.headers['x-character'], inHead);
      }
    });

    test('timeouts of a response', async () => {
      assert.equal((await maitred.ask('/timeout')).body, 'timed out');
    });

    test('WebSockets', async () => {
      const peer = new WebSocket(`ws://127.0.0.1:${maitred.port}/ws`);
      await once(peer, 'open');
      for (const message of ['grüße', 'x'.repeat(3_000_000)]) {
        peer.send(message);
        const [data] = await once(peer, 'message');
        assert.equal(data.toString(), message);
      }
      peer.close(1000);
      const [code] = await once(peer, 'close');
      assert.equal(code, 1000);
      const refused = new WebSocket(`ws://127.0.0.1:${maitred.port}/elsewhere`);
      const [error] = await once(refused, 'error');
      assert.match(error.message, /400/);
    });
  });
}

for (const transport of ['direct', 'relay']) {
  test(`where listeners take long, responses do not wait for those of others, ${transport}`, { skip: missing }, async () => {
    const maitred = await start('plain.js', { pool: `transport = "${transport}"` });
    const file = path.join(maitred.directory, 'noted');
    fs.writeFileSync(file, '');
    const one = async () => {
      const { body } = await maitred.ask('/noted', { agent: false, headers: { 'X-File': file } });
      fs.appendFileSync(file, '.');
      return body;
    };
    const rounds = [];
    // Two turns that were long, one after another, are the reason.
    while (rounds.length < 10 && rounds.at(-1) !== 'true') {
      const answers = await Promise.all(Array.from({ length: 8 }, one));
      rounds.push(String(answers.every((answer) => answer === 'true')));
    }
    await maitred.stop();
    assert.equal(rounds.at(-1), 'true');
  });
}

describe('one connection', { skip: missing }, () => {
  test('is one socket to the application', async () => {
    const maitred = await start('plain.js');
    const marks = [];
    for (let n = 0; n < 3; n += 1) marks.push(JSON.parse((await maitred.ask('/socket')).body));
    assert.deepEqual(marks.map(({ mark }) => mark), [1, 2, 3]);
    assert.deepEqual(marks[0].address, { address: '127.0.0.1', port: maitred.port, family: 'IPv4' });
    await maitred.stop();
  });
});

/** One request over HTTP/2: { trailers, body }. */
async function askH2(port, path) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  const stream = session.request({ ':path': path });
  let trailers = {};
  stream.on('trailers', (fields) => { trailers = fields; });
  const body = await text(stream);
  session.close();
  return { trailers, body };
}

for (const transport of ['direct', 'relay']) {
  describe(`trailers, ${transport}`, { skip: missing }, () => {
    test('go to clients that take them', async () => {
      const maitred = await start('plain.js', { pool: `transport = "${transport}"` });
      for (const [headers, sum] of [[{ TE: 'trailers' }, '4'], [{}, undefined], [{ TE: 'trailers' }, '4']]) {
        const { body, trailers, headers: { trailer } } = await maitred.ask('/trailers', { headers });
        assert.deepEqual([body, trailers['x-sum'], trailer], ['body', sum, sum && 'X-Sum']);
      }
      const { trailers, body } = await askH2(maitred.port, '/trailers');
      assert.deepEqual([body, trailers['x-sum']], ['body', '4']);
      await maitred.stop();
    });
  });
}

for (const transport of ['direct', 'relay']) {
  describe(`informational responses, ${transport}`, { skip: missing }, () => {
    test('go to clients that may have them', async () => {
      const maitred = await start('plain.js', { pool: `transport = "${transport}"\nearly_hints = "always"` });
      const seen = [];
      const request = http.get({ port: maitred.port, path: '/early', agent: false });
      request.on('information', ({ statusCode, headers }) => seen.push([statusCode, headers.link]));
      const [response] = await once(request, 'response');
      assert.equal(await text(response), 'final after both');
      assert.deepEqual(seen, [[103, '</style.css>; rel=preload'], [102, undefined]]);
      await maitred.stop();
    });
  });
}

describe('long requests', { skip: missing }, () => {
  let maitred;
  before(async () => { maitred = await start('plain.js', { pool: 'request_timeout = "1s"' }); });
  after(() => maitred?.stop());

  test('a response on its way may take longer than request_timeout', async () => {
    const { pid } = await maitred.json('/counts');
    const { body } = await maitred.ask('/events');
    assert.equal(body.match(/data/g).length, 12);
    assert.equal((await maitred.json('/counts')).pid, pid);
  });

  test('a silent request is cancelled, and other requests live on', async () => {
    const { pid } = await maitred.json('/counts');
    const told = async () => {
      const said = await maitred.json('/told');
      return said.some((line) => line.startsWith('socket close')) && said;
    };
    for (const [path, status] of [['/silent', 504], ['/silent-stream', 200]]) {
      const neighbour = maitred.ask('/events', { agent: false });
      const [response] = await once(http.get({ port: maitred.port, path, agent: false }), 'response');
      assert.equal(response.statusCode, status);
      const [failure] = await Promise.all([text(response).then(() => null, (error) => error.code), until(told)]);
      assert.equal(failure, status === 200 ? 'ECONNRESET' : null);
      assert.deepEqual(await maitred.json('/told'), ['request close', 'response close', 'socket close false']);
      assert.equal((await neighbour).body.match(/data/g).length, 12);
    }
    assert.equal((await maitred.json('/counts')).pid, pid);
  });

  test('a process that was given more than it can do answers, and is not ended', async () => {
    const { pid } = await maitred.json('/counts');
    const silent = Array.from({ length: 8 }, () => maitred.ask('/silent', { agent: false }));
    assert.deepEqual((await Promise.all(silent)).map(({ status }) => status), silent.map(() => 504));
    assert.equal((await maitred.json('/counts')).pid, pid);
  });

  test('a client that does not read is disconnected, and no other', async () => {
    const { pid, closed } = await maitred.json('/counts');
    const socket = net.connect(maitred.port, '127.0.0.1');
    socket.pause();
    socket.on('error', () => {});
    socket.write('GET /endless HTTP/1.1\r\nHost: x\r\n\r\n');
    await until(async () => (await maitred.json('/counts')).closed > closed);
    assert.equal((await maitred.json('/counts')).pid, pid);
    socket.destroy();
  });
});

describe('the death of the worker process', { skip: missing }, () => {
  /** The process of Maitred that has the connections of clients. */
  const workerOf = (master) => fs.readFileSync(`/proc/${master}/task/${master}/children`, 'utf8').trim().split(' ')
    .find((child) => fs.readFileSync(`/proc/${child}/cmdline`, 'utf8').startsWith('maitred: worker'));
  const runs = (pid) => {
    try {
      return !/\) Z/.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'));
    } catch {
      return false;
    }
  };

  for (const transport of ['direct', 'relay']) {
    test(`this process stays, ${transport}`, async () => {
      const maitred = await start('plain.js', { pool: `transport = "${transport}"` });
      const { pid } = await maitred.json('/counts');
      const endless = http.get({ port: maitred.port, path: '/endless' });
      const [stream] = await once(endless, 'response');
      stream.on('error', () => {}).resume();
      const peer = new WebSocket(`ws://127.0.0.1:${maitred.port}/ws`);
      peer.on('error', () => {});
      await once(peer, 'open');
      for (let n = 0; n < 3; n += 1) {
        const worker = workerOf(maitred.child.pid);
        process.kill(Number(worker), 'SIGKILL');
        await until(() => !runs(worker));
        // The connections of before are lost.
        maitred.agent.destroy();
        const counts = await maitred.json('/counts');
        assert.equal(counts.pid, pid);
      }
      await until(async () => (await maitred.json('/counts')).closed === 1);
      if (transport === 'direct') {
        // It was the application's own.
        peer.send('still there');
        assert.equal(String((await once(peer, 'message'))[0]), 'still there');
      }
      peer.terminate();
      await maitred.stop();
    });
  }
});

describe('the end', { skip: missing }, () => {
  test('requests are finished, WebSockets closed, and the process exits', async () => {
    const maitred = await start('plain.js');
    const peer = new WebSocket(`ws://127.0.0.1:${maitred.port}/ws`);
    await once(peer, 'open');
    const slow = maitred.ask('/slow', { agent: false });
    await maitred.ask('/socket', { agent: false });
    const [said, answer, [code]] = await Promise.all([maitred.stop(), slow, once(peer, 'close')]);
    assert.equal(answer.body, 'slow');
    assert.equal(code, 1001);
    assert.doesNotMatch(said, /WARN.*(killed|ended)/);
  });
});
