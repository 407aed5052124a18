'use strict';

const express = require('express');

const maitred = require('../../lib');

const app = express();
app.use(express.json({ limit: '50mb' }));
app.get('/hello/:name', (request, response) => {
  response.cookie('a', '1').cookie('b', '2').json({ hello: request.params.name, ip: request.ip, host: request.hostname });
});
app.post('/sum', (request, response) => response.json({ length: JSON.stringify(request.body).length }));
app.get('/etag', (request, response) => response.send('the same every time'));
app.get('/file', (request, response) => response.sendFile(__filename));
app.get('/fails', () => { throw new Error('asked for'); });
app.get('/rejects', async () => { throw new Error('asked for'); });
app.use((error, request, response, next) => {
  if (response.headersSent) return next(error);
  return response.status(500).send('failed');
});
maitred.listen(app);
