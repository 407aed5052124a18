'use strict';
// Files as bodies. The directory is in FILES.

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const maitred = require('../../lib');

const directory = process.env.FILES;
const opened = fs.openSync(path.join(directory, 'large'), 'r');

const ROUTES = {
  '/part': (response, query) => {
    response.statusCode = 206;
    return maitred.sendFile(response, path.join(directory, query.get('name')), {
      start: Number(query.get('start')), end: query.has('end') ? Number(query.get('end')) : undefined,
    });
  },
  '/whole': (response, query) => maitred.sendFile(response, path.join(directory, query.get('name'))),
  '/opened': (response) => maitred.sendFile(response, opened),
  '/handle': async (response) => {
    const handle = await fs.promises.open(path.join(directory, 'large'));
    await maitred.sendFile(response, handle, { start: 1_000_000 });
    await handle.close();
  },
  '/twice': async (response) => {
    await maitred.sendFile(response, opened);
    await maitred.sendFile(response, opened);
  },
  // As middleware does that compresses: it waits until the head is about to be written.
  '/coded': (response) => {
    const { writeHead, write, end } = response;
    response.writeHead = (...rest) => {
      response.removeHeader('Content-Length');
      response.setHeader('Content-Encoding', 'upper');
      return writeHead.apply(response, rest);
    };
    response.write = (chunk, ...rest) => write.call(response, chunk.toString().toUpperCase(), ...rest);
    response.end = (...rest) => end.apply(response, rest);
    return maitred.sendFile(response, opened);
  },
  '/named': (response, query) => {
    response.setHeader('X-Sendfile', Buffer.from(path.join(directory, query.get('name'))).toString('latin1'));
    response.end();
  },
  // A body that is dropped, which goes on after the file was passed.
  '/named-and-written': async (response) => {
    response.setHeader('X-Sendfile', path.join(directory, 'large'));
    for (let n = 0; n < 20; n += 1) {
      if (!response.write('unwanted')) await new Promise((resolve) => { response.once('drain', resolve); });
      await new Promise(setImmediate);
    }
    response.end('unwanted');
  },
  '/named-not-modified': (response) => {
    response.writeHead(304, { 'X-Sendfile': path.join(directory, 'large') }).end();
  },
  '/descriptors': (response) => {
    response.end(String(fs.readdirSync('/proc/self/fd').length));
  },
};

maitred.listen((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://x');
  return ROUTES[pathname](response, searchParams);
}).then((server) => {
  if (!maitred.isBehindMaitred() && server instanceof http.Server && server.address()) {
    console.log(`http://127.0.0.1:${server.address().port}`);
  }
});
