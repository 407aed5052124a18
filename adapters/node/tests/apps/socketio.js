'use strict';
// Socket.IO and another WebSocket server on one http.Server, and what Node-RED does: both destroy upgrades on which nothing was
// written after some time, which is shortened here.

const http = require('node:http');

const { Server } = require('socket.io');
const { WebSocketServer } = require('ws');

const maitred = require('../../lib');

const DESTROY_MS = 50;
const seen = { upgrades: 0, looked: 0, destroyed: 0, closed: false, rooms: 0 };

const server = http.createServer((request, response) => {
  response.end(JSON.stringify({ ...seen, listening: server.listening, port: typeof server.address()?.port }));
});
const io = new Server(server, { destroyUpgradeTimeout: DESTROY_MS, pingInterval: 200 });
io.on('connection', (socket) => {
  socket.on('say', (value, answer) => answer({ value, address: socket.handshake.address, secure: socket.handshake.secure }));
  socket.on('everybody', (value) => io.emit('said', value));
  socket.on('binary', (data) => socket.emit('binary', Buffer.concat([data, data])));
  socket.on('disconnect', (why) => { seen.disconnected = why; });
});
const others = new WebSocketServer({ noServer: true });
others.on('connection', (peer) => peer.on('message', (data, binary) => peer.send(data, { binary })));
server.on('upgrade', (request, socket, head) => {
  if (request.url.startsWith('/socket.io/')) return;
  seen.upgrades += 1;
  // runtime/lib/index.js of Node-RED, there with 5 seconds.
  setTimeout(() => {
    if (socket.bytesWritten === 0) {
      seen.destroyed += 1;
      socket.destroy();
    }
    // By now, the timer of engine.io has looked, too.
    setImmediate(() => { seen.looked += 1; });
  }, DESTROY_MS * 2);
  if (request.url === '/ws') others.handleUpgrade(request, socket, head, (peer) => others.emit('connection', peer));
});
server.on('close', () => console.error('the server is closed'));
maitred.listen(server, { host: '127.0.0.1' }).then(() => {
  if (!maitred.isBehindMaitred()) console.log(`http://127.0.0.1:${server.address().port}`);
});
