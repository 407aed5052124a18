'use strict';
// Large texts as bodies. node:http puts the head before a text, which makes V8 copy all of it before that is searched or encoded;
// and a buffer for each text, for which `Buffer.from` has thrice its bytes allocated, keeps the garbage collector busy.

const http = require('node:http');

const { EXCHANGE } = require('./file');

/** Characters from which on a text is large. */
const LARGE_MIN = 16 * 1024;
const SCRATCH_BYTES = 2 * 1024 * 1024;
/** Other names of encodings: node:http does not put the head before a text in one of these. */
const ALIAS = { utf8: 'utf-8', latin1: 'binary' };
/** A head is encoded as the text behind it; only such a one is the same by itself. */
const ASCII = /^[\0-\x7f]*$/;

let scratch = null;
let used = 0;

/** What `encoded` has given is not needed any more. */
function startOver() {
  used = 0;
}

function room(bytes) {
  scratch ??= Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  if (bytes > SCRATCH_BYTES - used) return Buffer.allocUnsafeSlow(bytes);
  used += bytes;
  return scratch.subarray(used - bytes, used);
}

/** The bytes of a text, to be written or copied before `startOver` is called. */
function encoded(text, encoding) {
  if (text.length < LARGE_MIN) return Buffer.from(text, encoding);
  const bytes = Buffer.byteLength(text, encoding);
  const data = room(bytes);
  // As many bytes as characters: each of them is ASCII, and there is nothing to encode.
  const isPlain = bytes === text.length && (encoding === 'utf-8' || encoding === 'utf8');
  // Of Base64 and the like there may be fewer bytes than is estimated.
  return data.subarray(0, data.write(text, isPlain ? 'latin1' : encoding));
}

/** The same bytes, to be kept. */
function kept(data) {
  return data.buffer === scratch?.buffer ? Buffer.from(data) : data;
}

/** Has responses to Maitred's requests write a large text by itself, behind their head. */
function setTextsApart() {
  const { prototype } = http.ServerResponse;
  if (Object.hasOwn(prototype, '_send')) return;
  const { _send } = prototype;
  const value = function send(data, encoding, callback, bytes) {
    if (typeof data !== 'string' || data.length < LARGE_MIN || this._headerSent || !this[EXCHANGE] || !ASCII.test(this._header)) {
      return _send.call(this, data, encoding, callback, bytes);
    }
    return _send.call(this, data, ALIAS[encoding || 'utf8'] ?? encoding, callback, bytes);
  };
  Object.defineProperty(prototype, '_send', { value, writable: true, configurable: true, enumerable: false });
}

module.exports = { encoded, kept, setTextsApart, startOver };
