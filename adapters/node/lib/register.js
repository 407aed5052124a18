'use strict';
// `node --require maitred/register server.js`: the server that the program has listen gets its requests from Maitred instead.
// Started by hand, the program listens as it always does.

const http = require('node:http');
const https = require('node:https');

const { Behind, isBehindMaitred, takeDescriptors } = require('./behind');

/** Of several servers, the port of the one that is meant; without it, it is the first that listens. */
const PORT_VARIABLE = 'MAITRED_PORT';

/** Where `listen` was asked to: (port, host), (path), ({ port, host, path }), each with a callback behind it. */
function askedOf([first, second]) {
  if (typeof first === 'object' && first !== null) return { port: first.port ?? 0, host: first.host, path: first.path };
  if (typeof first === 'string' && !/^\d+$/.test(first)) return { path: first };
  return { port: typeof first === 'function' ? 0 : first ?? 0, host: typeof second === 'string' ? second : undefined };
}

function intercept() {
  let served = false;
  const wanted = process.env[PORT_VARIABLE];
  for (const { prototype } of [http.Server, https.Server]) {
    const { listen } = prototype;
    prototype.listen = function (...values) {
      const asked = askedOf(values);
      if (served || (wanted !== undefined && Number(wanted) !== Number(asked.port))) return listen.apply(this, values);
      served = true;
      const callback = values.findLast((value) => typeof value === 'function');
      if (callback) this.once('listening', callback);
      new Behind(this, asked, {}, null);
      return this;
    };
  }
}

if (isBehindMaitred()) {
  takeDescriptors();
  intercept();
}
