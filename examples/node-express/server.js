'use strict';
// An Express application with WebSockets. `node server.js` serves it alone, on port 8080; maitred.toml says how Maitred does.

const express = require('express');
const http = require('node:http');
const maitred = require('maitred');
const { WebSocketServer } = require('ws');

const app = express();
app.get('/', (request, response) => response.type('text').send(`Hello ${request.ip}, from process ${process.pid}\n`));
app.post('/upper', express.text({ limit: '10mb' }), (request, response) => {
  response.type('text').send(request.body.toUpperCase());
});

const server = http.createServer(app);
const sockets = new WebSocketServer({ server, path: '/echo' });
sockets.on('connection', (peer) => peer.on('message', (data, binary) => peer.send(data, { binary })));

maitred.listen(server, { onShutdown: () => sockets.clients.forEach((peer) => peer.close(1001)) });
