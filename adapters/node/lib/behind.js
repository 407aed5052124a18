'use strict';
// What a process does that Maitred has started: its channels, one after another, and its end.

const { Channel, Detached } = require('./channel');
const { Recovery } = require('./recovery');
const { Serving } = require('./serving');

const VARIABLE = 'MAITRED_CHANNEL';
const RECOVERY_VARIABLE = 'MAITRED_RECOVERY';
/** Requests at a time. Many waiting requests cost an event loop little; this bounds the memory that they take. */
const CAPACITY = 1000;
const CAPACITY_MAX = 65536;
/** How long the application's own handlers of SIGTERM have when everything is answered, in milliseconds. */
const HANDLERS_MS = 3000;

/** What Maitred has left in the environment, once it was taken from there. */
let taken = null;

/** Whether Maitred has started this process. */
function isBehindMaitred() {
  return taken !== null || process.env[VARIABLE] !== undefined;
}

/** Takes the descriptors' numbers from the environment: programs that this one starts are not to take them for theirs. */
function takeDescriptors() {
  if (!taken && isBehindMaitred()) {
    const recovery = process.env[RECOVERY_VARIABLE];
    taken = { fd: Number(process.env[VARIABLE]), recoveryFd: recovery === undefined ? null : Number(recovery) };
    delete process.env[VARIABLE];
    delete process.env[RECOVERY_VARIABLE];
  }
  return taken;
}

/** The one server of this process that Maitred's requests go to. */
class Behind {
  /** `shutdown`, if there is one, closes what the application has open. */
  constructor(server, asked, { capacity = CAPACITY, name = `node ${process.version}` }, shutdown) {
    if (!Number.isInteger(capacity) || capacity < 1 || capacity > CAPACITY_MAX) {
      throw new RangeError(`maitred.listen: capacity is ${capacity}, and must be from 1 to ${CAPACITY_MAX}`);
    }
    const { fd, recoveryFd } = takeDescriptors();
    this.capacity = capacity;
    this.name = name;
    this.shutdown = shutdown;
    this.recovery = recoveryFd === null ? null : new Recovery(recoveryFd);
    this.detached = new Detached();
    this.channel = null;
    this.signalled = false;
    /** The application has handlers of SIGTERM itself, which have been called. */
    this.isHandled = false;
    this.serving = new Serving(server, asked, () => this.leave());
    this.onTerminate = () => {
      this.note();
      this.leave();
    };
    // Before HELLO: as soon as that is sent, there may be something to finish. First, to see those that listen once.
    process.prependListener('SIGTERM', this.onTerminate);
    // A terminal sends it to all processes, and the master decides.
    process.on('SIGINT', () => {});
    this.begin(fd);
  }

  begin(fd) {
    const { capacity, name, detached, recovery, serving } = this;
    const lost = recovery && (() => recovery.next((next) => (next === null ? void this.end() : this.begin(next))));
    this.channel = new Channel(fd, serving, { capacity, name, ended: () => void this.end(), lost, detached });
  }

  leave() {
    this.recovery?.stop();
    this.channel.leave();
  }

  /** Everything is answered. */
  async end() {
    const { serving, detached } = this;
    try {
      if (!this.signalled && !this.shutdown && !serving.isClosing) this.signal();
      if (serving.isClosing || (this.isHandled && !this.shutdown)) return void this.leaveToApplication();
      serving.ended();
      if (this.shutdown) await this.shutdown();
      else for (const link of detached) link.client?.end();
      await detached.end();
    } catch (error) {
      console.error(error);
    }
    process.exit(0);
    return undefined;
  }

  /**
   * It has asked for the end by closing the server, or its handlers of SIGTERM know what is still to do: they end the process, or
   * it ends when nothing holds it any more. A server that is still open can be closed as before.
   */
  leaveToApplication() {
    const { serving } = this;
    if (!serving.isClosing) setTimeout(() => process.exit(0), HANDLERS_MS).unref();
    // A SIGTERM that the process sends to itself, as frameworks do in the end, ends it.
    process.removeListener('SIGTERM', this.onTerminate);
    this.channel.socket.destroy();
    serving.drained();
  }

  note() {
    this.signalled = true;
    this.isHandled ||= process.listenerCount('SIGTERM') > 1;
  }

  /** Handlers of SIGTERM are called also if Maitred has asked for the end otherwise. */
  signal() {
    this.note();
    if (this.isHandled) process.emit('SIGTERM', 'SIGTERM', 15);
  }
}

module.exports = { Behind, isBehindMaitred, takeDescriptors };
