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

/** libuv's status for ETOOMANYREFS of Linux, which it has no name for. */
const TOO_MANY_REFS = -109;
/** When it is tried again, in milliseconds: nothing reports that there is room. */
const AGAIN_MS = 5;

/**
 * Writes bytes to a socket over a channel's handle, whose queue is empty, and `passed` with the first of them. Only the
 * writing of strings passes handles, and net.Socket has no parameter for that. Where more descriptors of this user are under
 * way than it may have open, nothing was written, and it is tried again (PROTOCOL.md section 2).
 */
function writeWith(socket, handle, passed, bytes, callback) {
  handle.writeLatin1String = (request, text) => {
    delete handle.writeLatin1String;
    const attempt = (one) => {
      const status = handle.writeLatin1String(one, text, passed);
      // It is set to what is passed, to keep that alive; the callback at the end takes it for what was written to.
      one.handle = handle;
      return status;
    };
    const { oncomplete } = request;
    const complete = (status, ...rest) => {
      if (status !== TOO_MANY_REFS || socket.destroyed) return void oncomplete.call(request, status, ...rest);
      setTimeout(() => {
        const again = new request.constructor();
        again.oncomplete = complete;
        const failed = socket.destroyed ? TOO_MANY_REFS : attempt(again);
        if (failed) oncomplete.call(request, failed, ...rest);
      }, AGAIN_MS);
    };
    request.oncomplete = complete;
    return attempt(request);
  };
  socket.write(bytes.latin1Slice(), 'latin1', callback);
}

module.exports = { channelHandle, fileHandle, writeWith };
