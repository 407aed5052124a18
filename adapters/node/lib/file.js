'use strict';
// Files as bodies of responses: what `sendFile` is given, and what the field X-Sendfile names.

const fs = require('node:fs');
const { finished, pipeline } = require('node:stream/promises');
const { promisify } = require('node:util');

const openAt = promisify(fs.open);
const statOf = promisify(fs.fstat);
const readAt = promisify(fs.read);
const realpathOf = promisify(fs.realpath);
const linkOf = promisify(fs.readlink);

/** What is cheaper to read and write than to pass. */
const SMALL_BYTES_MAX = 64 * 1024;
/** Without O_NONBLOCK, opening a pipe would wait for its other end. */
const FLAGS = fs.constants.O_RDONLY | fs.constants.O_NONBLOCK | fs.constants.O_NOCTTY;
/** Where a response keeps what Maitred knows of its request. */
const EXCHANGE = Symbol('maitred exchange');
const MISSING = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP']);

/** An error with the status that frameworks answer it with. */
function failure(status, message, cause) {
  return Object.assign(new Error(message, { cause }), { status, statusCode: status, expose: false, code: cause?.code });
}

/** A part of an open file, whose descriptor it owns. */
class FilePart {
  constructor(fd, offset, length) {
    this.fd = fd;
    this.offset = offset;
    this.length = length;
  }

  get isSmall() {
    return this.length <= SMALL_BYTES_MAX;
  }

  /** All of it, as bytes. */
  async read() {
    const bytes = Buffer.allocUnsafe(this.length);
    for (let filled = 0; filled < bytes.length;) {
      const { bytesRead } = await readAt(this.fd, bytes, filled, bytes.length - filled, this.offset + filled);
      if (bytesRead === 0) throw failure(500, 'a file became shorter while it was sent');
      filled += bytesRead;
    }
    return bytes;
  }

  /** Gives the descriptor away. */
  take() {
    const { fd } = this;
    this.fd = -1;
    return fd;
  }

  close() {
    const fd = this.take();
    if (fd >= 0) fs.closeSync(fd);
  }
}

/**
 * A regular file, or a part of one: from byte `start` to byte `end`, which is the last. `source` is a path, or an open
 * descriptor (also of a FileHandle), which stays the caller's. Rejects with 404, 416 or 500 in `status`.
 */
async function openPart(source, start = 0, end = Infinity) {
  const number = typeof source === 'number' ? source : source?.fd;
  if (!Number.isInteger(start) || start < 0 || start > end + 1 || !(Number.isInteger(end) || end === Infinity)) {
    throw new RangeError(`maitred.sendFile: from ${start} to ${end}`);
  }
  let fd;
  try {
    fd = await openAt(number === undefined ? source : `/proc/self/fd/${number}`, FLAGS);
  } catch (error) {
    if (error instanceof TypeError) throw error;
    throw failure(number === undefined && MISSING.has(error.code) ? 404 : 500, error.message, error);
  }
  const part = new FilePart(fd, start, 0);
  try {
    const found = await statOf(fd);
    if (!found.isFile()) throw failure(404, `not a regular file: ${source}`);
    if (start > found.size) throw failure(416, `byte ${start} of a file of ${found.size}`);
    part.length = Math.max(Math.min(end, found.size - 1) - start + 1, 0);
  } catch (error) {
    part.close();
    throw error;
  }
  return part;
}

/**
 * What the field X-Sendfile names: a regular file below `root`, after all links in both were followed. Where the file lies is
 * asked of its descriptor, so that no link can be changed in between.
 */
async function openBelow(root, field) {
  // Bytes, in a field, are text of Latin-1; a path is UTF-8, unless it cannot be.
  const utf8 = Buffer.from(field, 'latin1').toString();
  const name = utf8.includes('\ufffd') ? field : utf8;
  if (!name.startsWith('/')) throw failure(500, `not an absolute path: ${name}`);
  const top = await realpathOf(root);
  const judge = (path) => {
    if (!path.startsWith(top.endsWith('/') ? top : `${top}/`)) throw failure(500, `${path} is not below ${top}`);
    return path;
  };
  // Before it is opened: opening alone does something to some devices.
  const part = await openPart(judge(await realpathOf(name)));
  try {
    judge(await linkOf(`/proc/self/fd/${part.fd}`));
  } catch (error) {
    part.close();
    throw error;
  }
  return part;
}

/** Whether the head, as middleware has left it, goes with the part as it is. */
function goesAsItIs(response, part, coding) {
  return Number(response.getHeader('content-length')) === part.length && !response.hasHeader('transfer-encoding') &&
    response.getHeader('content-encoding') === coding;
}

/** Has the body follow a head that middleware has seen: as it is, or through what middleware makes of it. */
async function sendLarge(response, part) {
  const coding = response.getHeader('content-encoding');
  response.writeHead(response.statusCode);
  const exchange = response[EXCHANGE];
  if (exchange && !exchange.done && goesAsItIs(response, part, coding)) {
    exchange.file = part;
    response.end();
    return finished(response);
  }
  const { offset, length } = part;
  const stream = fs.createReadStream('', { fd: part.take(), start: offset, end: offset + length - 1 });
  return pipeline(stream, response);
}

/**
 * Makes a file, or a part of it, the body of a response whose head is not sent yet: behind Maitred it is passed, and Maitred
 * sends it; otherwise it is streamed. `Content-Length` is set; the status and the other fields are the caller's. Resolves when
 * the response is all there, or the client has gone. Rejects, before anything is sent, with an error whose `status` and
 * `statusCode` are 404 (no such file, or not a regular one), 416 (`start` is behind its end) or 500.
 */
async function sendFile(response, source, { start, end } = {}) {
  if (response.headersSent) throw Object.assign(new Error('the head is sent already'), { code: 'ERR_HTTP_HEADERS_SENT' });
  const part = await openPart(source, start, end);
  try {
    if (response.destroyed) return;
    const bytes = part.isSmall ? await part.read() : null;
    response.setHeader('Content-Length', part.length);
    if (bytes) response.end(bytes);
    else if (response.req?.method === 'HEAD') response.end();
    else await sendLarge(response, part);
  } catch (error) {
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  } finally {
    part.close();
  }
}

module.exports = { EXCHANGE, openBelow, sendFile };
