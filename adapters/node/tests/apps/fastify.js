'use strict';

const { Readable } = require('node:stream');

const fastify = require('fastify');

const maitred = require('../../lib');
const { uploadOf } = require('./bodies');

const app = fastify();
app.get('/hello/:name', {
  schema: { response: { 200: { type: 'object', properties: { hello: { type: 'string' }, ip: { type: 'string' } } } } },
}, async (request) => ({ hello: request.params.name, ip: request.ip, left: 'out' }));
app.get('/text', async (request) => `text for ${request.ip}`);
app.post('/json', async (request) => request.body);
// formidable reads it.
app.addContentTypeParser('multipart/form-data', (request, payload, done) => done(null));
app.post('/upload', async (request) => uploadOf(request.raw));
app.get('/error', async () => { throw new Error('asked for'); });
app.get('/file', async (request, reply) => {
  await maitred.sendFile(reply.raw, request.query.name);
  return reply;
});
app.get('/stream', async () => Readable.from(['one ', 'two ', 'three']));
app.addHook('onClose', async () => { console.error('closed in order'); });
maitred.listen(app);
