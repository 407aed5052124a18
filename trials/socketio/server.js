'use strict';
// Socket.IO beside another WebSocket server, on one http.Server that listens as it does everywhere.

const http = require('node:http');
const { Server } = require('socket.io');
const { WebSocketServer } = require('ws');

const server = http.createServer((request, response) => {
  response.setHeader('Content-Type', 'text/plain');
  response.end(`${request.method} ${request.url}\n`);
});

const echo = new WebSocketServer({ noServer: true });
echo.on('connection', (peer) => peer.on('message', (data, binary) => peer.send(data, { binary })));
server.on('upgrade', (request, socket, head) => {
  if (request.url === '/echo') echo.handleUpgrade(request, socket, head, (peer) => echo.emit('connection', peer));
});

const io = new Server(server, { pingInterval: 1000, maxHttpBufferSize: 4e6 });
io.on('connection', (socket) => {
  socket.on('join', (room, done) => {
    socket.join(room);
    done(`in ${room}`);
  });
  socket.on('say', (room, what) => io.to(room).emit('said', what));
  socket.on('length', (what, done) => done(what.length));
});

server.listen(Number(process.env.PORT), '127.0.0.1');
