// The suite's origin, as its package has it, but on loopback only, on a port that the kernel chooses, and with connections that
// stay open for longer than cases pause: one that it closes while a proxy begins a request on it looks like a request that the
// proxy has repeated. It says where it listens, and ends when its input does.
//
//     npm_config_protocol=http npm_config_port=0 npm_config_pidfile=FILE node origin.mjs SUITE
import net from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

// Some cases have responses that end with the connection, so it has to be less than a request may take.
const IDLE_MS = 9000

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port) {
  this.keepAliveTimeout = IDLE_MS
  return listen.call(this, Number(port), '127.0.0.1')
}
process.stdin.on('end', () => process.exit())
process.stdin.resume()
await import(pathToFileURL(path.resolve(process.argv[2], 'server/server.mjs')))
