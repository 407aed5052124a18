'use strict';
// Responses that node:http writes all at once, as it does with `response.end(body)`: they can leave as one TAIL, with everything
// else that a turn of the event loop says. Heads are remembered with what was decided about them, because a server writes the
// same ones again and again.

const { TAIL_BYTES_MAX } = require('./frames');
const { BadResponse, Response } = require('./response');

/** Heads that are remembered. */
const HEADS_MAX = 64;
const DATE = /\r\ndate *:/i;
/** node:http may write a head in the encoding of the body behind it; then only these characters are sure. */
const ASCII = /^[\0-\x7f]*$/;

const heads = new Map();

/** What of request and route decides about a head. */
function variantOf(flags, meta) {
  return (flags & 7) | (meta.serverHeader ? 8 : 0) | (meta.sendfileRoot === null ? 16 : 0);
}

/** What is sent for a head, and which body has to follow; `mode` is null if it is to go piece by piece. */
function judge(text, variant, flags, meta) {
  const no = { variant, mode: null, status: 0, rest: 0, head: null };
  const status = Number(text.slice(9, 12));
  if (!text.startsWith('HTTP/1.1 ') || !(status >= 200 && status <= 999) || !ASCII.test(text)) return no;
  const response = new Response(flags, meta);
  try {
    const head = Buffer.from(response.judge(status, text.slice(0, -4)), 'latin1');
    const { mode, rest } = response;
    return response.named === null && (mode === 'length' || mode === 'none') ? { variant, mode, status, rest, head } : no;
  } catch (error) {
    if (error instanceof BadResponse) return no;
    throw error;
  }
}

function headOf(text, flags, meta) {
  const variant = variantOf(flags, meta);
  const known = heads.get(text);
  if (known !== undefined && known.variant === variant) return known;
  const head = judge(text, variant, flags, meta);
  // One without a Date gets that of its moment.
  if (DATE.test(text)) {
    if (heads.size >= HEADS_MAX) heads.clear();
    heads.set(text, head);
  }
  return head;
}

/**
 * What was written, as { status, rest, head, pieces, bytes }: `rest` bytes of body, `bytes` in all, `pieces` of the body each
 * with its encoding. Null if it is no whole response, or too large for one TAIL. `held` is chunk, encoding and callback of
 * each write, one after another.
 */
function wholeOf(held, flags, meta) {
  const [first, encoding] = held;
  if (typeof first !== 'string') return null;
  const end = first.indexOf('\r\n\r\n') + 4;
  if (end < 4) return null;
  const pieces = [];
  let body = 0;
  if (end < first.length) {
    const rest = first.slice(end);
    pieces.push(rest, encoding);
    body += Buffer.byteLength(rest, encoding);
  }
  for (let n = 3; n < held.length; n += 3) {
    const chunk = held[n];
    if (chunk.length > 0) {
      pieces.push(chunk, held[n + 1]);
      body += typeof chunk === 'string' ? Buffer.byteLength(chunk, held[n + 1]) : chunk.length;
    }
  }
  if (body > TAIL_BYTES_MAX) return null;
  const { mode, status, rest, head } = headOf(end === first.length ? first : first.slice(0, end), flags, meta);
  if (mode === null || body !== (mode === 'length' ? rest : 0)) return null;
  const bytes = head.length + body;
  return bytes <= TAIL_BYTES_MAX ? { status, rest: body, head, pieces, bytes } : null;
}

module.exports = { wholeOf };
