'use strict';
// A program that knows nothing of Maitred: it listens, and closes its server in an orderly way when it is asked to.

const http = require('node:http');
const https = require('node:https');

const { WebSocketServer } = require('ws');

let closing = false;
let slow = 0;
const create = process.env.SECURE ? (listener) => https.createServer({}, listener) : http.createServer;
const server = create((request, response) => {
  if (request.url === '/slow') {
    slow += 1;
    return void setTimeout(() => response.end(`slow, ${closing}`), 200);
  }
  const { address, port } = server.address();
  server.getConnections((error, count) => {
    response.end(JSON.stringify({
      listening: server.listening, address, port, count, slow, secure: Boolean(request.socket.encrypted),
      channel: process.env.MAITRED_CHANNEL,
    }));
  });
  return undefined;
});
new WebSocketServer({ server }).on('connection', (peer) => peer.on('message', (data) => peer.send(String(data))));
// Of several servers one is meant.
const metrics = http.createServer((request, response) => response.end('metrics'));
metrics.listen(Number(process.env.METRICS_PORT ?? 0), '127.0.0.1', () => {
  server.maxRequestsPerSocket = 2;
  server.listen({ port: 3000, host: '127.0.0.1' }, () => console.error(`listening, metrics on ${metrics.address().port}`));
});
process.on('SIGTERM', () => {
  closing = true;
  metrics.close();
  server.close((error) => {
    console.error(`closed: ${error}`);
    // As one that closes its database.
    setTimeout(() => process.exit(0), 50);
  });
});
