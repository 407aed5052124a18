'use strict';

const { Readable } = require('node:stream');

const express = require('express');

const maitred = require('../../lib');
const { uploadOf } = require('./bodies');

const app = express();
app.use(express.json({ limit: '50mb' }));
app.get('/hello/:name', (request, response) => {
  response.cookie('a', '1').cookie('b', '2').json({ hello: request.params.name, ip: request.ip, host: request.hostname });
});
app.post('/sum', (request, response) => response.json({ length: JSON.stringify(request.body).length }));
app.get('/etag', (request, response) => response.send('the same every time'));
app.get('/range', (request, response) => response.sendFile(__filename));
app.get('/text', (request, response) => response.type('text').send(`text for ${request.ip}`));
app.post('/json', (request, response) => response.json(request.body));
app.get('/stream', (request, response) => Readable.from(['one ', 'two ', 'three']).pipe(response.type('text')));
app.post('/upload', async (request, response) => response.json(await uploadOf(request)));
app.get('/error', () => { throw new Error('asked for'); });
app.get('/file', (request, response) => maitred.sendFile(response, request.query.name));
app.get('/fails', () => { throw new Error('asked for'); });
app.get('/rejects', async () => { throw new Error('asked for'); });
app.use((error, request, response, next) => {
  if (response.headersSent) return next(error);
  return response.status(error.status ?? 500).send('failed');
});
maitred.listen(app);
