'use strict';
// Starts the real server in front of an application of apps/.

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');

const ROOT = path.resolve(__dirname, '../../..');
const START_MS = 60_000;

/** The Maitred to test: `MAITRED`, or what cargo built last without --release. */
function binary() {
  const target = process.env.CARGO_TARGET_DIR || path.join(ROOT, 'target');
  return process.env.MAITRED || path.join(target, 'debug', 'maitred');
}

/** Why tests with the real server cannot run; false if they can. */
const missing = fs.existsSync(binary()) ? false : `no ${binary()}: cargo build -p maitred`;

/** One request: { status, headers, trailers, body, local }. */
function ask(port, url, { method = 'GET', headers = {}, body, agent } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ port, host: '127.0.0.1', path: url, method, headers, agent }, (response) => {
      const pieces = [];
      response.on('data', (data) => pieces.push(data));
      response.on('error', reject);
      response.on('end', () => resolve({
        status: response.statusCode,
        headers: response.headers,
        trailers: response.trailers,
        body: Buffer.concat(pieces).toString(),
        local: request.reusedSocket,
      }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

class Maitred {
  constructor(directory, child) {
    this.directory = directory;
    this.child = child;
    this.text = '';
    this.port = 0;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    this.exited = once(child, 'exit');
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.text += text;
        child.emit('said');
      });
    }
  }

  /** Waits for something in its output. */
  async says(pattern) {
    const signal = AbortSignal.timeout(START_MS);
    for (;;) {
      const found = pattern.exec(this.text);
      if (found) return found;
      if (this.child.exitCode !== null) throw new Error(`Maitred exited:\n${this.text}`);
      await Promise.race([once(this.child, 'said', { signal }), this.exited]);
    }
  }

  /** One request on the connection that is kept. */
  ask(url, options = {}) {
    return ask(this.port, url, { agent: this.agent, ...options });
  }

  async json(url) {
    return JSON.parse((await this.ask(url, { agent: false })).body);
  }

  /** Stops it in an orderly way; what was said to the end. */
  async stop() {
    this.agent.destroy();
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    await this.exited;
    fs.rmSync(this.directory, { recursive: true });
    return this.text;
  }
}

/** `pool` is more lines of [pool.app], `site` more sites, `more` more of the file, `node` options of Node.js. */
async function start(app, { pool = '', site = '', more = '', node = [] } = {}) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'maitred-node-'));
  const file = path.join(directory, 'maitred.toml');
  fs.writeFileSync(file, `
[server]
share_user = true
threads = 1
spool = "${directory}"
grace = "10s"
[[listen]]
address = "127.0.0.1:0"
[[site]]
[[site.route]]
path = "/*"
pool = "app"
${site}
[pool.app]
command = ${JSON.stringify([process.execPath, ...node, path.join(__dirname, 'apps', app)])}
workers = 1
queue = { timeout = "60s" }
${pool}
${more}
`);
  return run(directory, file);
}

/** An example of the repository, on a port of its own choice; null if its packages are not installed. */
async function startExample(name) {
  const source = path.join(ROOT, 'examples', name);
  if (!fs.existsSync(path.join(source, 'node_modules'))) return null;
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'maitred-node-'));
  const file = path.join(directory, 'maitred.toml');
  const text = fs.readFileSync(path.join(source, 'maitred.toml'), 'utf8').replace('":8080"', '"127.0.0.1:0"');
  fs.writeFileSync(file, `${text}cwd = "${source}"\nqueue = { timeout = "60s" }\n`);
  return run(directory, file);
}

async function run(directory, file) {
  const child = spawn(binary(), ['run', '-c', file], { stdio: ['ignore', 'pipe', 'pipe'] });
  const maitred = new Maitred(directory, child);
  maitred.port = Number((await maitred.says(/http:\/\/127\.0\.0\.1:(\d+)/))[1]);
  return maitred;
}

/** An application of apps/ that listens by itself, and says where in its first line. */
async function startAlone(app, env = {}) {
  const options = { env: { ...process.env, PORT: '0', ...env }, stdio: ['ignore', 'pipe', 'inherit'] };
  const child = spawn(process.execPath, [path.join(__dirname, 'apps', app)], options);
  const exited = once(child, 'exit');
  const [text] = await once(child.stdout.setEncoding('utf8'), 'data');
  const stop = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  return { port: Number(/:(\d+)/.exec(text)[1]), stop };
}

module.exports = { ask, missing, start, startAlone, startExample };
