// node:http without a framework: /bytes/N is N bytes.
const http = require('node:http');
const place = require('./listen');

const CONTENT = Buffer.alloc(1 << 20, 'x');

const server = http.createServer((request, response) => {
  const count = Number(request.url.slice(request.url.lastIndexOf('/') + 1));
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': count });
  response.end(CONTENT.subarray(0, count));
});
// A server behind a proxy has to keep connections longer than the proxy does.
server.keepAliveTimeout = 310_000;

if (place.port || place.path) {
  server.listen(place);
} else {
  require('maitred').listen(server);
}
