const path = require('node:path');

module.exports = {
  // As Next's documentation has it for a server of one's own: server.js with what it needs.
  output: 'standalone',
  outputFileTracingRoot: path.join(__dirname, '..'),
  turbopack: { root: path.join(__dirname, '..') },
  // Compression is the front's.
  compress: false,
  poweredByHeader: false,
};
