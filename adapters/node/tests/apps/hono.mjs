// Hono by its own adapter for Node.js.
import { createAdaptorServer } from '@hono/node-server';
import { getConnInfo } from '@hono/node-server/conninfo';
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';

import maitred from '../../lib/index.js';
import bodies from './bodies.js';

let aborted = 0;
const app = new Hono();
app.get('/text', (context) => context.text(`text for ${getConnInfo(context).remote.address}`));
app.post('/json', async (context) => context.json(await context.req.json()));
app.get('/stream', (context) => {
  const pieces = ['one ', 'two ', 'three'].map((text) => new TextEncoder().encode(text));
  context.header('Content-Type', 'text/plain');
  return context.body(ReadableStream.from(pieces));
});
app.post('/upload', async (context) => context.json(await bodies.uploadOf(context.env.incoming)));
app.get('/error', () => { throw new Error('asked for'); });
app.get('/events', (context) => streamSSE(context, async (stream) => {
  for (let id = 0; id < 3; id += 1) await stream.writeSSE({ id: String(id), data: 'event' });
}));
// The AbortSignal of the request says that its client has gone.
app.get('/wait', (context) => {
  context.req.raw.signal.addEventListener('abort', () => { aborted += 1; });
  const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('begun')) });
  return context.body(body);
});
app.get('/aborted', (context) => context.text(String(aborted)));
app.get('/url', (context) => context.text(context.req.url));
maitred.listen(createAdaptorServer(app));
