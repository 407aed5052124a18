'use strict';
// A request with trailers, as node:http reads it: they stand behind a body in chunks only, and here it is one chunk.

const CONTENT_LENGTH = /\r\ncontent-length: (\d+)(?=\r\n)/;

/** { start, end } to put before and behind the body; `fields` are lines that the head is to have besides. */
function inChunks(head, trailers, fields) {
  const text = head.latin1Slice(0, head.length - 2);
  const length = Number(CONTENT_LENGTH.exec(text)?.[1] ?? 0);
  const size = length > 0 ? `${length.toString(16)}\r\n` : '';
  return {
    start: Buffer.from(`${text.replace(CONTENT_LENGTH, '')}transfer-encoding: chunked\r\n${fields}\r\n${size}`, 'latin1'),
    end: Buffer.concat([Buffer.from(length > 0 ? '\r\n0\r\n' : '0\r\n'), trailers, Buffer.from('\r\n')]),
  };
}

module.exports = { inChunks };
