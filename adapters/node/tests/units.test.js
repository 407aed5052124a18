'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { inChunks } = require('../lib/chunks');
const { Decoder, FLAG, KIND, Violation } = require('../lib/frames');
const { writeWith } = require('../lib/handles');
const { Outbox } = require('../lib/outbox');
const { Fields } = require('../lib/requests');
const { BadResponse, Response } = require('../lib/response');
const { encoded, kept, startOver } = require('../lib/texts');
const { wholeOf } = require('../lib/whole');
const { restOf } = require('../lib/writer');

function header(kind, bytes, { flags = 0, descriptors = 0, connection = 0, request = 0 } = {}) {
  const data = Buffer.alloc(16);
  data.writeUInt32LE(bytes, 0);
  data[4] = kind;
  data[5] = flags;
  data.writeUInt16LE(descriptors, 6);
  data.writeUInt32LE(connection, 8);
  data.writeUInt32LE(request, 12);
  return data;
}

function request(meta, head, body, options) {
  const parts = [meta, head, body].map((text) => Buffer.from(text));
  const lengths = Buffer.alloc(12);
  parts.forEach((part, n) => lengths.writeUInt32LE(part.length, 4 * n));
  const payload = Buffer.concat([lengths, ...parts]);
  return Buffer.concat([header(KIND.REQUEST, payload.length, options), payload]);
}

test('frames come out whole, wherever they are cut', () => {
  const data = Buffer.concat([
    request('a=b\n', 'GET / HTTP/1.1\r\n\r\n', 'body', { connection: 7, request: 9, descriptors: 1 }),
    header(KIND.FORGET, 0, { connection: 7 }), header(KIND.PING, 0, { request: 0xffff_ffff }),
  ]);
  for (let cut = 0; cut <= data.length; cut += 1) {
    for (const second of [cut, Math.min(cut + 5, data.length)]) {
      const seen = [];
      const decoder = new Decoder((frame) => seen.push(frame));
      for (const piece of [data.subarray(0, cut), data.subarray(cut, second), data.subarray(second)]) {
        if (piece.length) decoder.add(Buffer.from(piece));
      }
      assert.deepEqual(seen.map(({ kind }) => kind), [KIND.REQUEST, KIND.FORGET, KIND.PING]);
      assert.deepEqual([seen[0].meta, seen[0].body].map(String), ['a=b\n', 'body']);
      assert.deepEqual([seen[0].connection, seen[0].request, seen[0].descriptors], [7, 9, 1]);
      assert.equal(seen[2].request, 0xffff_ffff);
    }
  }
});

test('what the protocol does not allow is refused', () => {
  const bad = [
    header(60, 0), header(KIND.DONE, 16), header(KIND.REQUEST, 3 << 20), header(KIND.PING, 1),
    header(KIND.REQUEST, 12, { flags: FLAG.BODY_FD }), header(KIND.FORGET, 0, { descriptors: 3 }),
    Buffer.concat([header(KIND.REQUEST, 12), Buffer.alloc(12, 1)]),
  ];
  for (const data of bad) assert.throws(() => new Decoder(() => {}).add(data), Violation);
});

function trailers(lines, options = {}) {
  return Buffer.concat([header(KIND.TRAILERS, lines.length, { flags: 128, ...options }), Buffer.from(lines, 'latin1')]);
}

test('trailers come with their REQUEST, wherever they are cut', () => {
  const lines = 'x-a: 1\r\nx-b: \r\n';
  const numbers = { connection: 7, request: 9 };
  const plain = request('a=b\n', 'GET / HTTP/1.1\r\n\r\n', '', numbers);
  const data = Buffer.concat([trailers(lines, numbers), plain, plain]);
  for (let cut = 1; cut < data.length; cut += 1) {
    const seen = [];
    const decoder = new Decoder((frame) => seen.push(frame));
    for (const piece of [data.subarray(0, cut), data.subarray(cut)]) decoder.add(Buffer.from(piece));
    assert.deepEqual(seen.map(({ kind, trailers: found }) => [kind, found && String(found)]), [[1, lines], [1, null]]);
  }
  for (const most of ['x: y\r\n'.repeat(32), `x: ${'y'.repeat(8185)}\r\n`, "!#$%&'*+-.^_`|~09az: \xe9\t:\r\n"]) {
    new Decoder(() => {}).add(Buffer.concat([trailers(most, numbers), plain]));
  }
});

test('trailers that are none, or of no REQUEST, are refused', () => {
  const numbers = { connection: 7, request: 9 };
  const made = (options = {}) => request('a=b\n', 'GET / HTTP/1.1\r\n\r\n', '', { ...numbers, ...options });
  const lines = [
    '', 'x: y', 'x: y\n', 'x: y\r\n\r\n', 'x y\r\n', 'x:y\r\n', ': y\r\n', 'X: y\r\n', 'x x: y\r\n', 'x: y\0\r\n', 'x: y\rz\r\n',
    'x: y\nz\r\n', '\xe9: y\r\n', 'x: y\r\n'.repeat(33), `x: ${'y'.repeat(8186)}\r\n`,
  ].map((text) => trailers(text, numbers));
  lines.push(...[{ flags: 129 }, { descriptors: 1 }].map((options) => trailers('x: y\r\n', { ...numbers, ...options })));
  const good = trailers('x: y\r\n', numbers);
  const behind = [
    good, header(KIND.PING, 0), header(KIND.FORGET, 0, numbers), header(KIND.SHUTDOWN, 0), header(60, 0, { flags: 128 }),
    made({ connection: 8 }), made({ request: 8 }), made({ flags: FLAG.MAY_DETACH }),
  ].map((frame) => Buffer.concat([good, frame]));
  for (const data of [...lines, ...behind]) {
    assert.throws(() => new Decoder(() => {}).add(Buffer.concat([data, made()])), Violation, String(data));
  }
});

test('a request with trailers is one in chunks', () => {
  const head = (length) => Buffer.from(`POST / HTTP/1.1\r\nhost: h\r\n${length}x-content-length: 5\r\n\r\n`, 'latin1');
  const framed = (length) => {
    const { start, end } = inChunks(head(length), Buffer.from('x: \xe9\r\n', 'latin1'), 'connection: close\r\n');
    return [start, end].map((part) => part.toString('latin1'));
  };
  const start = 'POST / HTTP/1.1\r\nhost: h\r\nx-content-length: 5\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n';
  assert.deepEqual(framed('content-length: 300\r\n'), [`${start}12c\r\n`, '\r\n0\r\nx: \xe9\r\n\r\n']);
  for (const length of ['', 'content-length: 0\r\n']) assert.deepEqual(framed(length), [start, '0\r\nx: \xe9\r\n\r\n']);
});

test('numbers beyond 32 bits in DONE', () => {
  const out = new Outbox();
  out.done(0xffff_fff0, 0xffff_fff1, 1, 200, 2 ** 40, 5_000_000_000);
  out.seal();
  const [data] = out.take(1);
  assert.deepEqual([data[4], data[5], data.readUInt16LE(6), data.readUInt32LE(0), data.length], [KIND.DONE, 1, 0, 16, 32]);
  assert.deepEqual([data.readUInt32LE(8), data.readUInt32LE(12), data.readUInt32LE(16)], [0xffff_fff0, 0xffff_fff1, 200]);
  assert.equal(data.readBigUInt64LE(24), 5_000_000_000n);
  assert.equal(data.readUInt32LE(20), 0xffff_ffff);
});

test('frames leave in the order in which they were said, however large', () => {
  const out = new Outbox();
  const said = [];
  for (let n = 1; n < 400; n += 1) {
    out.done(n, n, 1, 200, 0, 0);
    said.push(n);
    if (n % 7 === 0) {
      out.tails(n, n, Buffer.alloc(1));
      said.push(n);
    }
    const pieces = [Buffer.alloc(n * 7, 'x'), 'latin1', '\xe9'.repeat(n), 'utf8'];
    out.whole(n, n, { head: Buffer.from('head'), pieces, bytes: 4 + n * 9 });
    said.push(n);
  }
  const total = out.bytes;
  out.seal();
  const seen = [];
  const whole = Buffer.concat(out.take(out.pieces.length));
  assert.deepEqual([whole.length, out.bytes], [total, 0]);
  for (let at = 0; at < whole.length; at += 16 + whole.readUInt32LE(at)) {
    seen.push(whole.readUInt32LE(at + 8));
    if (whole[at + 4] !== KIND.TAIL || whole.readUInt32LE(at) === 1) continue;
    assert.equal(whole.latin1Slice(at + 16, at + 21), 'headx');
  }
  assert.deepEqual(seen, said);
});

test('a decoder goes on behind a frame whose taker has thrown', () => {
  const seen = [];
  const decoder = new Decoder(({ request: number }) => {
    seen.push(number);
    if (number === 2) throw new Error('asked for');
  });
  const data = Buffer.concat([1, 2, 3, 4].map((number) => header(KIND.PING, 0, { request: number })));
  assert.throws(() => decoder.add(data.subarray(0, 60)), /asked for/);
  assert.deepEqual(seen, [1, 2]);
  decoder.resume();
  decoder.add(data.subarray(60));
  assert.deepEqual(seen, [1, 2, 3, 4]);
});

test('connections with several requests at once are known before the first of them', () => {
  const found = [];
  const decoder = new Decoder(({ connection }) => found.push([connection, decoder.repeated?.has(connection) ?? false]));
  const [first, second] = [7, 8].map((connection) => request('', 'GET / HTTP/1.1\r\n\r\n', '', { connection }));
  decoder.add(Buffer.concat([first, second, first]));
  assert.deepEqual(found, [[7, true], [8, false], [7, true]]);
});

test('fields of a connection are those of its requests, whichever came before', () => {
  const heads = [
    'host: a\r\nx-a: 1\r\nx-request-id: 1\r\nx-request-start: t=1',
    'host: a\r\nx-a: 1\r\nx-request-id: 2\r\nx-request-start: t=2',
    'host: a\r\nx-a: 1\r\nx-b: \r\nx-request-id: 3', 'host: a', 'host: a\r\nx-a: 12', 'host: \xe9\t;\r\nx-request-id: 4: ', '',
    'x-request-id: 5\r\nhost: a\r\nx-request-id: 6', 'x-request-id: 5\r\nhost: b\r\nx-request-id: 6',
  ];
  const fields = new Fields();
  for (const one of [...heads, ...heads.reverse()]) {
    const lines = one.split('\r\n').filter((line) => line !== '');
    const wanted = lines.flatMap((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]);
    const text = `GET / HTTP/1.1${one === '' ? '' : '\r\n'}${one}\r\n\r\n`;
    assert.deepEqual(fields.read(text, text.indexOf('\r\n')), wanted, one);
  }
  // The parser of node:http judges these.
  for (const one of ['a: \x01', 'a: \x7f', 'a b: c', 'a:b', 'a: b\nc: d', '\xe9: a', 'x-request-id: a\r\nx y: z']) {
    assert.equal(new Fields().read(`GET / HTTP/1.1\r\n${one}\r\n\r\n`, 14), null, one);
  }
});

/** What leaves as a whole of such writes, as text; null if nothing does. */
function wholeText(writes, flags = FLAG.KEEP, meta = { serverHeader: true, sendfileRoot: null }) {
  const found = wholeOf(writes.flatMap(([chunk, encoding = 'latin1']) => [chunk, encoding, null]), flags, meta);
  if (found === null) return null;
  const out = new Outbox();
  out.whole(1, 2, found);
  out.seal();
  const [data] = out.take(1);
  assert.equal(data.readUInt32LE(0), data.length - 16);
  return data.latin1Slice(16);
}

test('whole responses leave as what pieces of them would have become', () => {
  const head = (fields) => `HTTP/1.1 200 OK\r\n${fields}Date: today\r\n\r\n`;
  const three = head('Content-Length: 3\r\n');
  for (const flags of [FLAG.KEEP, 0, FLAG.KEEP | FLAG.HTTP10, FLAG.KEEP]) {
    for (const serverHeader of [true, false]) {
      const meta = { serverHeader, sendfileRoot: null };
      const fed = new Response(flags, meta).feed(`${three}abc`, 'latin1').latin1Slice();
      assert.equal(wholeText([[three], [Buffer.from('abc')]], flags, meta), fed);
      assert.equal(wholeText([[`${three}abc`], ['']], flags, meta), fed);
      assert.equal(wholeText([[three], ['a'], [new Uint8Array([98, 99])]], flags, meta), fed);
    }
  }
  assert.match(wholeText([[`${three}a\xe9`, 'utf8']]), /\r\n\r\na\xc3\xa9$/);
  const none = wholeText([['HTTP/1.1 204 No Content\r\n\r\n']]);
  assert.match(none, /^HTTP\/1\.1 204 No Content\r\nServer: maitred\r\nDate: .*\r\n\r\n$/);
  // Only the date of its own moment.
  const [one, other] = ['one', 'other'].map((date) => wholeText([[three.replace('today', date)], ['abc']]));
  assert.match(one + other, /Date: one.*Date: other/s);
});

test('what is no whole response, or has to be looked at, goes piece by piece', () => {
  const head = (fields, status = '200 OK') => `HTTP/1.1 ${status}\r\n${fields}Date: today\r\n\r\n`;
  const three = head('Content-Length: 3\r\n');
  for (const writes of [
    [[three], ['ab']], [[three], ['abcd']], [[three.slice(0, -1)]], [[Buffer.from(three)], ['abc']],
    [[head('Transfer-Encoding: chunked\r\n')], ['0\r\n\r\n']], [[head('')], ['abc']], [[head('', '103 Early Hints')]],
    [[head('', '101 Switching Protocols')]], [[head('Content-Length: many\r\n')]], [['nothing\r\n\r\n']],
    [[head('Content-Length: 3\r\nX: \xe9\r\n')], ['abc']], [[head('Content-Length: 65536\r\n')], [Buffer.alloc(65536)]],
    [[head('Content-Length: 70000\r\n')], [Buffer.alloc(70000)]],
  ]) assert.equal(wholeText(writes), null, String(writes[0]));
  const meta = { serverHeader: true, sendfileRoot: '/srv' };
  const named = head('Content-Length: 3\r\nX-Sendfile: /srv/a\r\n');
  assert.notEqual(wholeText([[named], ['abc']]), null);
  assert.equal(wholeText([[named], ['abc']], FLAG.KEEP, meta), null);
  assert.equal(wholeText([[three], ['abc']], FLAG.KEEP | FLAG.HEAD), null);
  assert.match(wholeText([[three]], FLAG.KEEP | FLAG.HEAD), /Content-Length: 3/);
});

test('what a socket has not taken is what follows', () => {
  const pieces = ['ab', 'cde', '', 'f'].map((text) => Buffer.from(text));
  for (let written = 0; written < 6; written += 1) assert.equal(String(restOf(pieces, written)), 'abcdef'.slice(written));
  const [large] = pieces;
  large[1] = 120;
  assert.equal(restOf([Buffer.from('head'), large], 5).buffer, large.buffer);
});

test('large texts are encoded as Buffer.from encodes them, and stay where they are kept', () => {
  const texts = ['x', '\xe9x', '\u0141', '\u20acuro', '\ud83d\ude00', '\ud83dx'].flatMap((text) => [
    text.repeat(20_000), `${'a'.repeat(30_000)}${text}`, text,
  ]);
  texts.push('z'.repeat(3 << 20));
  const lasting = [];
  for (const encoding of ['utf8', 'utf-8', 'latin1', 'binary', 'ascii', 'utf16le', 'hex', 'base64']) {
    for (const text of texts) {
      const given = ['hex', 'base64'].includes(encoding) ? Buffer.from(text).toString(encoding) : text;
      const wanted = Buffer.from(given, encoding);
      startOver();
      // Several may be there at the same time, also more than there is room for.
      const found = Array.from({ length: 3 }, () => encoded(given, encoding));
      for (const one of found) assert.ok(one.equals(wanted), `${encoding} ${text.slice(0, 3)}`);
      lasting.push([kept(found[2]), wanted]);
    }
  }
  for (const [one, wanted] of lasting) assert.ok(one.equals(wanted));
  const own = Buffer.from('own');
  assert.equal(kept(own), own);
});

test('tails are cut at 64 KiB, and their memory is used again once it has left', () => {
  const out = new Outbox();
  const left = (bytes, character) => {
    out.tails(1, 2, Buffer.alloc(bytes, character));
    out.seal();
    return out.take(out.pieces.length);
  };
  for (const bytes of [1, 65536, 65537, 150_000, 1024 * 1024]) {
    const pieces = left(bytes, 'x');
    const data = Buffer.concat(pieces);
    let body = '';
    for (let at = 0; at < data.length; at += 16 + data.readUInt32LE(at)) {
      assert.deepEqual([data.readUInt32LE(at + 4), data.readUInt32LE(at + 8), data.readUInt32LE(at + 12)], [KIND.TAIL, 1, 2]);
      assert.ok(data.readUInt32LE(at) <= 65536);
      body += data.latin1Slice(at + 16, at + 16 + data.readUInt32LE(at));
    }
    assert.equal(body, 'x'.repeat(bytes));
    assert.equal(data.length, bytes + 16 * Math.ceil(bytes / 65536));
    out.giveBack(pieces);
  }
  const [first, second] = [left(200_000, 'a'), left(200_000, 'b')];
  assert.notEqual(first[0].buffer, second[0].buffer);
  assert.equal(first[0][16], 97);
  out.giveBack(first);
  assert.equal(left(200_000, 'c')[0].buffer, first[0].buffer);
  assert.equal(second[0][16], 98);
});

/** What is sent of pieces of a response, cut at every place. */
function sent(flags, text, meta = {}) {
  const whole = new Response(flags, meta);
  const out = whole.feed(text, 'latin1').toString('latin1').replace(/\r\nDate: [^\r]*/, '');
  for (let cut = 1; cut < text.length; cut += 1) {
    const response = new Response(flags, meta);
    const first = response.feed(text.slice(0, cut), 'latin1').toString('latin1');
    const both = first + response.feed(Buffer.from(text.slice(cut), 'latin1')).toString('latin1');
    assert.equal(both.replace(/\r\nDate: [^\r]*/, ''), out);
    assert.deepEqual([response.complete, response.bodyBytes], [whole.complete, whole.bodyBytes]);
  }
  return { out, complete: whole.complete, bodyBytes: whole.bodyBytes, status: whole.status };
}

test('responses are framed as the request wants it', () => {
  const { KEEP, HTTP10, HEAD } = FLAG;
  const head = 'HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n';
  const length = `${head}Content-Length: 3\r\nServer: s\r\n\r\nabc`;
  assert.deepEqual(sent(KEEP, length), {
    out: 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nServer: s\r\n\r\nabc', complete: true, bodyBytes: 3, status: 200,
  });
  assert.match(sent(0, length).out, /Server: s\r\nConnection: close\r\n\r\nabc$/);
  assert.match(sent(KEEP | HTTP10, length).out, /Server: s\r\nConnection: keep-alive\r\n\r\nabc$/);
  assert.ok(sent(KEEP, `${length}more`).out.endsWith('\r\nabc'));
  assert.equal(sent(KEEP, length.slice(0, -1)).complete, false);
  assert.ok(sent(KEEP | HEAD, length).out.endsWith('\r\n\r\n'));
  const pieces = '3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-Sum: 1\r\n\r\n';
  const chunks = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}`;
  const found = sent(KEEP, chunks);
  assert.deepEqual([found.complete, found.bodyBytes], [true, 19]);
  assert.ok(found.out.endsWith('cdef\r\n0\r\n\r\n'));
  assert.equal(sent(KEEP, chunks.slice(0, -1)).complete, false);
  const none = sent(KEEP, 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nServer: s\r\n\r\n');
  assert.equal(none.out, 'HTTP/1.1 204 No Content\r\nServer: s\r\n\r\n');
  assert.equal(sent(KEEP, 'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n').status, 200);
});

test('responses that cannot be sent are refused', () => {
  for (const text of [
    'nothing\r\n\r\n', 'HTTP/1.1 101 Switching\r\n\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n',
  ]) assert.throws(() => new Response(FLAG.KEEP).feed(text, 'latin1'), BadResponse);
});

test('fields of one hop are dropped, with those that Connection names', () => {
  const { KEEP, HTTP10 } = FLAG;
  const fields = 'Connection: keep-alive, X-Own\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\nTE: gzip\r\n' +
    'Trailer: X-Sum\r\nUpgrade: h2c\r\nX-Own: 1\r\nX-Other: 2\r\nServer: s\r\n';
  const head = `HTTP/1.1 200 OK\r\n${fields}`;
  assert.equal(sent(KEEP, `${head}Content-Length: 2\r\n\r\nok`).out,
    'HTTP/1.1 200 OK\r\nX-Other: 2\r\nServer: s\r\nContent-Length: 2\r\n\r\nok');
  // What node:http frames as chunks stays chunks, whatever else was set; what it does not, ends with the connection.
  const gzip = sent(KEEP, `${head}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`);
  assert.match(gzip.out, /Server: s\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok/);
  assert.ok(gzip.complete);
  assert.match(sent(KEEP, `${head}Transfer-Encoding: identity\r\n\r\nok`).out, /Server: s\r\nConnection: close\r\n\r\nok$/);
  // Only a response that asks for an upgrade may name one.
  const required = 'HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nServer: s\r\nContent-Length: 0\r\n\r\n';
  for (const [flags, connection] of [[KEEP, 'upgrade'], [0, 'close, upgrade'], [KEEP | HTTP10, 'keep-alive, upgrade']]) {
    const { out } = sent(flags, required);
    assert.ok(out.endsWith(`\r\nUpgrade: websocket\r\nConnection: ${connection}\r\n\r\n`), out);
  }
});

test('trailers go to those who take them', () => {
  const { KEEP, HTTP10, HEAD } = FLAG;
  const head = 'HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nServer: s\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n';
  const text = `${head}Content-Length: 5\r\nX-Sum: 1\r\nSet-Cookie: a\r\nbad name: x\r\nEtag: x:y\r\n\r\n`;
  const taken = sent(KEEP, text, { trailers: true });
  assert.equal(taken.out, `${head}X-Sum: 1\r\nEtag: x:y\r\n\r\n`);
  assert.deepEqual([taken.complete, taken.bodyBytes], [true, 2]);
  const none = { out: head.replace('Trailer: X-Sum\r\n', '') + '\r\n', complete: true, bodyBytes: 2, status: 200 };
  assert.deepEqual(sent(KEEP, text), none);
  assert.equal(sent(KEEP | HTTP10, text, { trailers: true }).out, 'HTTP/1.1 200 OK\r\nServer: s\r\nConnection: close\r\n\r\nok');
  assert.doesNotMatch(sent(KEEP | HEAD, text, { trailers: true }).out, /Trailer|X-Sum/);
  // So many, and no more.
  const end = (trailers) => sent(KEEP, `${head}${trailers}\r\n`, { trailers: true }).out.slice(head.length);
  for (const trailers of ['x: y\r\n'.repeat(32), `x: ${'y'.repeat(8185)}\r\n`]) assert.equal(end(trailers), `${trailers}\r\n`);
  for (const trailers of ['x: y\r\n'.repeat(33), `x: ${'y'.repeat(8186)}\r\n`]) assert.equal(end(trailers), '\r\n');
});

test('informational responses go to those who may have them, and only there', () => {
  const final = 'HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 2\r\n\r\nok';
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nConnection: close\r\nContent-Length: 3\r\n\r\n';
  const feed = (text, meta) => {
    const response = new Response(FLAG.KEEP, meta);
    return [response.feed(text, 'latin1').toString('latin1').replace(/\r\nDate: [^\r]*/, ''), response];
  };
  const early = { earlyHints: true };
  const [out, response] = feed(hints + final, early);
  assert.equal(out, `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n${final}`);
  assert.deepEqual([response.status, response.bodyBytes, response.complete], [200, 2, true]);
  const [first, unfinished] = feed(hints, early);
  assert.match(first, /^HTTP\/1\.1 103 .*\r\n\r\n$/s);
  assert.deepEqual([unfinished.begun, unfinished.status, unfinished.informed], [false, 0, 103]);
  // Not to others, nor what is no head, too large or too many. 100 is Maitred's.
  for (const [text, meta] of [
    [hints, {}], ['HTTP/1.1 100 Continue\r\n\r\n', early], ['HTTP/1.1 103 Early Hints\r\nLink: a\nX: b\r\n\r\n', early],
    [`HTTP/1.1 103 Early Hints\r\nLink: ${'x'.repeat(16 * 1024)}\r\n\r\n`, early],
  ]) assert.equal(feed(text + final, meta)[0], final);
  assert.equal(feed('HTTP/1.1 102 Processing\r\n\r\n'.repeat(20) + final, early)[0].match(/ 102 /g).length, 16);
});

test('no server is named where none is wanted', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n';
  assert.equal(sent(FLAG.KEEP, `${head}\r\nok`).out, `${head}Server: maitred\r\n\r\nok`);
  assert.equal(sent(FLAG.KEEP, `${head}\r\nok`, { serverHeader: false }).out, `${head}\r\nok`);
  assert.equal(sent(FLAG.KEEP, `${head}Server: s\r\n\r\nok`, { serverHeader: false }).out, `${head}Server: s\r\n\r\nok`);
});

test('X-Sendfile means something only where there is a root', () => {
  const text = 'HTTP/1.1 200 OK\r\nX-Sendfile: /etc/passwd\r\nServer: s\r\nContent-Length: 2\r\n\r\nok';
  assert.equal(sent(FLAG.KEEP, text).out, text);
  const response = new Response(FLAG.KEEP, { sendfileRoot: '/srv' });
  assert.equal(response.feed(text, 'latin1').length, 0);
  assert.equal(response.named, '/etc/passwd');
});

/** A handle that refuses so many writes, and a socket that writes to it as net.Socket does. */
function crowded(refusals) {
  const seen = [];
  class Request {}
  const handle = {
    writeLatin1String: undefined,
  };
  Object.setPrototypeOf(handle, {
    writeLatin1String(request, text, passed) {
      seen.push([text, passed]);
      const status = seen.length <= refusals ? -109 : 0;
      setImmediate(() => request.oncomplete(status, handle));
      return 0;
    },
  });
  const socket = {
    destroyed: false,
    write(text, encoding, callback) {
      const request = new Request();
      request.oncomplete = (status) => callback(status);
      handle.writeLatin1String(request, text);
    },
  };
  delete handle.writeLatin1String;
  return { handle, socket, seen };
}

test('what more descriptors are under way for than may be is tried again', async () => {
  const { handle, socket, seen } = crowded(2);
  const status = await new Promise((resolve) => {
    writeWith(socket, handle, 'passed', Buffer.from('text'), resolve);
  });
  assert.equal(status, 0);
  assert.deepEqual(seen, Array(3).fill(['text', 'passed']));
});

test('what is tried again ends with its socket', async () => {
  const { handle, socket, seen } = crowded(Infinity);
  const ended = new Promise((resolve) => {
    writeWith(socket, handle, 'passed', Buffer.from('text'), resolve);
  });
  setImmediate(() => setImmediate(() => { socket.destroyed = true; }));
  assert.equal(await ended, -109);
  assert.ok(seen.length >= 1);
});
