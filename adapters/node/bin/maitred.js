#!/usr/bin/env node
// `npx maitred`: the server's executable, from the package of this platform.
'use strict';

const { spawn } = require('node:child_process');
const os = require('node:os');
const path = require('node:path');

const PACKAGE = `maitred-${process.platform}-${process.arch}`;
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

function fail(text) {
  process.stderr.write(`maitred: ${text}\n`);
  process.exit(1);
}

function executable() {
  try {
    return require.resolve(`${PACKAGE}/bin/maitred`);
  } catch {
    return fail(
      `the package ${PACKAGE} with the server's executable is not installed. Maitred is built for Linux on x86-64; ` +
        'npm installs the package by itself, unless it was told to leave out optional dependencies (--omit=optional).',
    );
  }
}

/** The variables of the server: it starts programs with the Node.js that runs this, whatever `PATH` would lead to. */
function environment() {
  const own = path.dirname(process.execPath);
  const before = process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin';
  const PATH = before.split(path.delimiter)[0] === own ? before : own + path.delimiter + before;
  return { ...process.env, MAITRED_NODE: process.execPath, PATH };
}

// This process only waits: signals go to the server, and its end is the end of both.
const server = spawn(executable(), process.argv.slice(2), { stdio: 'inherit', env: environment() });
for (const signal of SIGNALS) {
  process.on(signal, () => {
    // A terminal sends Ctrl-C to the server as well, which would count it twice.
    if (!(signal === 'SIGINT' && process.stdin.isTTY)) server.kill(signal);
  });
}
server.on('error', (error) => fail(`the server's executable cannot be started: ${error.message}`));
server.on('exit', (status, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : status));
