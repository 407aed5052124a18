// Where an application listens: at a port of loopback or at a Unix socket, whichever the argument is.
const [, , place] = process.argv;

module.exports = /^\d+$/.test(place ?? '') ? { port: Number(place), host: '127.0.0.1' } : { path: place };
