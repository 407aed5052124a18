'use strict';

const net = require('node:net');

/** UV_NAMED_PIPE and what it may carry: `constants` of Node's own pipe handles. */
const SOCKET = 0;
const IPC = 2;

/**
 * The class of the handles behind sockets. node:net has no public way to pass or receive a descriptor, but they have. It is
 * taken from a socket that goes nowhere.
 */
function handleClass() {
  const nowhere = net.connect({ path: '/nowhere' });
  nowhere.on('error', () => {});
  const found = nowhere._handle?.constructor;
  nowhere.destroy();
  return found;
}

let Handle = null;

function open(fd, kind) {
  Handle ??= handleClass();
  const handle = Handle && new Handle(kind);
  if (typeof handle?.open !== 'function') {
    throw new Error(`maitred: Node ${process.version} gives no access to the handles of its sockets`);
  }
  const status = handle.open(fd);
  if (status) throw new Error(`maitred: descriptor ${fd} cannot be made a handle (${status})`);
  return handle;
}

/**
 * The handle of the channel. Opened as an IPC pipe, as Node does for its own child processes, it leaves what came with the
 * bytes of a read in `pendingHandle`, and takes a handle to pass with a string.
 */
function channelHandle(fd) {
  return open(fd, IPC);
}

/**
 * A handle that carries a file's descriptor to `write`, and owns it from now on. To libuv it is a pipe that is not read; what
 * a descriptor is it does not ask before that.
 */
function fileHandle(fd) {
  return open(fd, SOCKET);
}

/**
 * Writes bytes to a socket over a channel's handle, whose queue is empty, and `passed` with the first of them. Only the
 * writing of strings passes handles, and net.Socket has no parameter for that.
 */
function writeWith(socket, handle, passed, bytes, callback) {
  handle.writeLatin1String = (request, text) => {
    delete handle.writeLatin1String;
    const status = handle.writeLatin1String(request, text, passed);
    // It is set to what is passed, to keep that alive; the callback at the end takes it for what was written to.
    request.handle = handle;
    return status;
  };
  socket.write(bytes.latin1Slice(), 'latin1', callback);
}

module.exports = { channelHandle, fileHandle, writeWith };
