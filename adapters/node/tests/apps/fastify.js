'use strict';

const { Readable } = require('node:stream');

const fastify = require('fastify');

const maitred = require('../../lib');

const app = fastify();
app.get('/hello/:name', {
  schema: { response: { 200: { type: 'object', properties: { hello: { type: 'string' }, ip: { type: 'string' } } } } },
}, async (request) => ({ hello: request.params.name, ip: request.ip, left: 'out' }));
app.post('/echo', async (request) => request.body);
app.get('/stream', async () => Readable.from(['one ', 'two ', 'three']));
app.get('/fails', async () => { throw new Error('asked for'); });
app.addHook('onClose', async () => { console.error('closed in order'); });
maitred.listen(app);
