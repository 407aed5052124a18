import type { RequestListener, Server, ServerResponse } from 'node:http';

declare module 'node:http' {
  interface IncomingMessage {
    /** Who the user is, as Maitred has found out; absent where Maitred has not started this process. */
    readonly maitred?: Identity;
  }
}

/** The user of a request: `basic_auth`, `jwt` or `forward_auth` of Maitred's site or route has found it. No client can set it. */
export interface Identity {
  /** The name; `null` if nobody was asked who they are. */
  readonly user: string | null;
  /** `Basic` (`basic_auth`), `Bearer` (`jwt`) or `forward_auth`; `null` without a user. */
  readonly authType: string | null;
}

/** What `listen` takes beside a request listener and a server: applications of Fastify and of Koa. */
export type Application =
  | RequestListener
  | Server
  | { ready(): PromiseLike<unknown>; server: Server; close(): unknown }
  | { callback(): RequestListener };

export interface Options {
  /** Requests that this process works on at the same time, 1 to 65536. Default: 1000. */
  capacity?: number;
  /** What Maitred's status and log call this adapter; at most 64 bytes. Default: `node` and its version. */
  name?: string;
  /**
   * Called when every request is answered and the process is about to end: the place to close databases and WebSockets.
   * Default: `close()` of a Fastify application; WebSockets are ended without a word of their protocol.
   */
  onShutdown?: () => unknown;
  /** Without Maitred: where to listen. Default: the environment's `PORT`, or 8080. */
  port?: number | string;
  /** Without Maitred: the address to listen on. Default: all. */
  host?: string;
}

/** What `request.socket`, which is a `net.Socket`, offers beyond one. */
export interface ClientSocket {
  /** The leading part of the path at which the application is mounted; `''` at the root. */
  readonly mount: string;
  /** Whether the client speaks TLS. */
  readonly encrypted?: true;
}

/** Whether Maitred has started this process. */
export function isBehindMaitred(): boolean;

/**
 * Serves an application: behind Maitred if that has started this process, otherwise on a port of its own. Resolves with its
 * server once it takes requests.
 */
export function listen(application: Application, options?: Options): Promise<Server>;

/** A part of a file: from byte `start` to byte `end`, which is the last, as in `fs.createReadStream`. Default: all of it. */
export interface Part {
  start?: number;
  end?: number;
}

/**
 * Makes a regular file, or a part of it, the body of a response whose head is not sent yet. Behind Maitred the file is passed,
 * and Maitred sends it; otherwise it is streamed. `file` is a path, or an open descriptor or FileHandle, which stays the
 * caller's. `Content-Length` is set; the status and all other fields are the caller's.
 *
 * Resolves when the response is all there, or its client has gone. Rejects, before anything is sent, with an error whose
 * `status` and `statusCode` are 404 (no such file, or not a regular one), 416 (`start` is behind its end) or 500.
 */
export function sendFile(
  response: ServerResponse, file: string | Buffer | URL | number | { readonly fd: number }, part?: Part,
): Promise<void>;
