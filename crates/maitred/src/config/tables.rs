//! The keys of a configuration file, each declared once.

use std::time::Duration;

use super::acme::ACME;
use super::keys::{Default, Key, Kind, Table};
use super::limits::LIMITS;
use super::meaning::Buckets;
use super::reload;
use super::requests;
use super::workers::{WORKERS, WORKERS_MAX};
use crate::status::scoreboard::THREADS_MAX;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The top of the file.
pub const ROOT: Table = Table {
    title: "the top of the file",
    doc: "",
    example: "",
    keys: &[
        Key::new(
            "server",
            Kind::Section(&SERVER),
            Default::Absent("all defaults"),
            "The process as a whole.",
        ),
        Key::new("listen", Kind::Sections(&LISTEN), Default::Required, "Addresses to listen on."),
        Key::new("site", Kind::Sections(&SITE), Default::Required, "Sites; the first is the default site."),
        Key::new("pool", Kind::Named(&POOL), Default::Absent("none"), "Application processes."),
        Key::new(
            "acme",
            Kind::Section(&ACME),
            Default::Absent("no automatic certificates"),
            "Certificates that Maitred gets by itself.",
        ),
        Key::new(
            "limits",
            Kind::Section(&LIMITS),
            Default::Absent("all defaults"),
            "Bounds on what a peer may do.",
        ),
        Key::new("log", Kind::Section(&LOG), Default::Absent("all defaults"), "Access log and error log."),
    ],
};

/// `[server]`
pub const SERVER: Table = Table {
    title: "[server]",
    doc: "The process as a whole.",
    example: "[server]\nthreads = \"auto\"\naffinity = \"auto\"\nuser = \"www-data\"\n\
              admin = \"unix:/run/maitred.sock\"\n",
    keys: &[
        Key::new(
            "threads",
            Kind::WordOrWhole { words: &["auto"], min: 1, max: THREADS_MAX as u64 },
            Default::Text("auto"),
            "Event-loop threads. `\"auto\"` is one per usable CPU: the inherited mask and the cgroup's quota count.",
        ),
        Key::new(
            "affinity",
            Kind::Text("`\"auto\"`, `\"off\"`, or a list of CPUs such as `\"0-3,8\"`"),
            Default::Text("auto"),
            "Which CPU each thread is pinned to. `\"auto\"` pins one thread per CPU, and lets go of a CPU that is taken \
             by something else; a list is followed in its order, and kept.",
        ),
        Key::new(
            "user",
            Kind::Text("the name of an account"),
            Default::Absent(
                "`maitred`, which has to exist, when root starts the server; otherwise who starts it",
            ),
            "The account of the worker process, which serves clients. It cannot be that of a pool, unless `share_user` says so. \
             Only root can change to another account.",
        ),
        Key::new(
            "share_user",
            Kind::Flag,
            Default::Flag(false),
            "Have the processes of pools without a `user` run with the account of the worker process, and allow others to name \
             it. Any application can then reach the connections of all clients, and stop the worker process. Without `user` too, \
             everything has the account of whoever starts the server: for trying things out.",
        ),
        Key::new(
            "admin",
            Kind::Text("`\"unix:/path\"`, or a loopback address such as `\"127.0.0.1:9180\"`"),
            Default::Absent("nowhere"),
            "Where status, metrics and control are served: `maitred status`, `reload` and `stop` ask there. A socket \
             file is made with mode 0600; a TCP address must be a loopback address.",
        ),
        Key::new(
            "admin_token",
            Kind::Text("a path"),
            Default::Absent("no commands by TCP"),
            "For a TCP `admin` address, which every local user and every application reaches: where the server keeps the token \
             that commands take (`Authorization: Bearer …`), made at the start with mode 0600. `maitred reload` and its like \
             read it. Status and metrics need none.",
        ),
        Key::new(
            "pid_file",
            Kind::Text("a path"),
            Default::Absent("none"),
            "Where the master's process id is written.",
        ),
        reload::GRACE,
        reload::GRACE_STREAMS,
        reload::OLD_WORKERS_MAX_KEY,
        Key::new(
            "trusted_proxies",
            Kind::Texts("addresses and networks such as `\"10.0.0.0/8\"`"),
            Default::Texts(&[]),
            "Proxies in front of this server. What they say of the client (`Forwarded`, `X-Forwarded-*`, `X-Request-Id`) is \
             believed, passed to applications and added to; from anyone else it is replaced. The client's address in \
             logs is then the last one in `X-Forwarded-For` (or `Forwarded`) that is not a trusted proxy.",
        ),
        Key::new(
            "spool",
            Kind::Text("a directory"),
            Default::Text("/var/tmp"),
            "Where request bodies over `body_memory_bytes_max` wait for an application, in files without a name \
             (`O_TMPFILE`). The worker process must be able to write there.",
        ),
        Key::new(
            "state",
            Kind::Text("a directory"),
            Default::Absent(
                "`/var/lib/maitred` for root, `$XDG_STATE_HOME/maitred` for others, `$STATE_DIRECTORY` where that is set",
            ),
            "What outlives the server: automatic certificates and their account. It is made with mode 0700.",
        ),
        Key::new(
            "server_header",
            Kind::Flag,
            Default::Flag(true),
            "Whether responses that Maitred writes itself carry `Server: maitred`.",
        ),
        requests::ENCODED_SLASHES,
        requests::PATH_PARAMETERS,
        Key::new(
            "seccomp",
            Kind::Flag,
            Default::Flag(true),
            "Whether worker processes, and the process for automatic certificates, may make only the system calls that they need \
             (seccomp(2)). Any other one ends the process, and the log says that it was killed by SIGSYS; `false` is for a \
             machine whose C library needs one that is not in the list.",
        ),
    ],
};

/// `[[listen]]`
pub const LISTEN: Table = Table {
    title: "[[listen]]",
    doc: "An address to listen on; there can be several.",
    example: "[[listen]]\naddress = \"0.0.0.0:8080\"\n\n[[listen]]\naddress = \"[::]:8080\"\n",
    keys: &[
        Key::new(
            "address",
            Kind::Text("`\"0.0.0.0:8080\"`, `\"[::1]:8080\"` or `\":8080\"`"),
            Default::Required,
            "Address and port. `\":8080\"` is short for `\"0.0.0.0:8080\"`, all addresses of IPv4. `\"[::]:8080\"` is all \
             addresses of IPv6, and of IPv4 too if no other entry has that port. Port 0 lets the kernel choose.",
        ),
        Key::new(
            "buckets",
            Kind::WordOrWhole { words: &["auto", "per-thread"], min: 1, max: Buckets::MAX as u64 },
            Default::Text("auto"),
            "Listening sockets of this address (`SO_REUSEPORT`), which the threads share. `\"auto\"` is one for each \
             eight threads, at least one.",
        ),
        Key::new(
            "backlog",
            Kind::Whole { min: 1, max: 1_048_576 },
            Default::Whole(4096),
            "Length of each bucket's accept queue, in connections. The kernel lowers it to `net.core.somaxconn`.",
        ),
        Key::new(
            "steer_by_cpu",
            Kind::Flag,
            Default::Flag(false),
            "Give a new connection to the bucket of the thread whose home is the CPU that received it, or a neighbour of that \
             CPU, by a classic BPF program. Without pinned threads, to bucket number (CPU mod buckets).",
        ),
        Key::new(
            "defer_accept",
            Kind::Flag,
            Default::Flag(true),
            "Let the kernel hold a new connection until its first bytes are there (`TCP_DEFER_ACCEPT`, tcp(7)). The server \
             then reads at once, without waiting for the connection first, which halves the cost of a connection that \
             brings one request. A client that sends nothing is handed over after a second.",
        ),
        Key::new(
            "proxy_protocol",
            Kind::Flag,
            Default::Flag(false),
            "Whether connections start with a header of the PROXY protocol, version 1 or 2, that says who the client is. \
             One without it is closed.",
        ),
        Key::new(
            "proxy_protocol_from",
            Kind::Texts("addresses and networks such as `\"10.0.0.0/8\"`"),
            Default::Absent("loopback addresses and `trusted_proxies`"),
            "With `proxy_protocol`: who may connect. Anybody else could claim to be any client, and is closed unheard.",
        ),
        Key::new(
            "tls",
            Kind::Section(&TLS),
            Default::Absent("cleartext"),
            "Speak TLS here. `tls = {}` is all defaults; the certificates stand in the sites.",
        ),
        Key::new(
            "http2",
            Kind::Flag,
            Default::Flag(true),
            "Whether HTTP/2 is spoken, besides HTTP/1.1: over TLS the client chooses (ALPN), in cleartext it has to know.",
        ),
        Key::new(
            "redirect_http",
            Kind::Flag,
            Default::Flag(false),
            "Answer every request with a redirect (308, which keeps the method) to `https` at the same host, and to the port of \
             the first address with `tls`. Requests below `/.well-known/acme-challenge/` are answered as ever.",
        ),
    ],
};

/// `tls`
pub const TLS: Table = Table {
    title: "tls",
    doc: "TLS of an address. See [TLS](tls.md).",
    example: "[[listen]]\naddress = \":443\"\ntls = { versions = [\"1.3\"], client_auth = \"optional\", client_ca = \"ca.pem\" }\n\n\
              [[listen]]\naddress = \":80\"\nredirect_http = true\n\n[[site]]\nroot = \"public\"\n\
              certificates = [{ certificate = \"fullchain.pem\", key = \"privkey.pem\" }]\n",
    keys: &[
        Key::new(
            "versions",
            Kind::Choices(&["1.2", "1.3"]),
            Default::Texts(&["1.2", "1.3"]),
            "Versions of TLS that are spoken.",
        ),
        Key::new(
            "ciphers",
            Kind::Choices(crate::tls::choice::CIPHERS),
            Default::Texts(crate::tls::choice::CIPHERS),
            "Cipher suites that are used, by the names of rustls: `TLS13_…` are those of TLS 1.3, `TLS_ECDHE_…` those of 1.2, \
             each for certificates with a key of the kind that it names. Each of `versions` needs one. Of those that both know, \
             the client's favourite is taken.",
        ),
        Key::new(
            "curves",
            Kind::Choices(crate::tls::choice::CURVES),
            Default::Texts(crate::tls::choice::CURVES),
            "Groups of the key exchange that are used (what OpenSSL and nginx call curves). `X25519MLKEM768`, which withstands \
             quantum computers, is for TLS 1.3 only.",
        ),
        Key::new(
            "client_auth",
            Kind::Choice(&["off", "optional", "required"]),
            Default::Text("off"),
            "Whether clients are asked for a certificate. With `\"optional\"`, one that shows none is served all the same; a bad \
             one ends the connection in either case. Applications are told who the client is (`X-SSL-Client-*`).",
        ),
        Key::new(
            "client_ca",
            Kind::Text("a file"),
            Default::Absent("nobody"),
            "With `client_auth`: the certificates, in PEM, of those whose signature makes a client's certificate good.",
        ),
        Key::new(
            "client_crl",
            Kind::Text("a file"),
            Default::Absent("nothing is revoked"),
            "With `client_auth`: certificate revocation lists, in PEM, one of each authority that the certificate leads through. A \
             certificate that is on one, or whose authority has none here, is bad, and so is any once its list is past its \
             `nextUpdate`. The file is read again when it changes.",
        ),
        Key::new(
            "early_data",
            Kind::Flag,
            Default::Flag(false),
            "Whether a client that was here before may send a request with its first bytes (0-RTT). Only requests of safe methods \
             are answered that early, others get 425; sessions are then kept in memory, and do not survive a reload.",
        ),
        Key::new(
            "tickets",
            Kind::Flag,
            Default::Flag(true),
            "Whether clients can resume a session without a full handshake.",
        ),
        Key::new(
            "keylog",
            Kind::Text("a file"),
            Default::Absent("nowhere"),
            "Append the secrets of all sessions to this file, so that Wireshark can read what was recorded. For debugging only: \
             who has the file can read everything.",
        ),
    ],
};

const FILE_INDEX: Key = Key::new(
    "index",
    Kind::Texts("file names"),
    Default::Texts(&["index.html"]),
    "Names that are tried in a directory, in order.",
);
const FILE_LISTING: Key =
    Key::new("listing", Kind::Flag, Default::Flag(false), "Whether a directory without an index is listed.");
const FILE_HIDDEN: Key = Key::new(
    "hidden",
    Kind::Flag,
    Default::Flag(false),
    "Whether names that start with a dot are served. `.well-known` always is.",
);
const FILE_SYMLINKS: Key = Key::new(
    "symlinks",
    Kind::Choice(&["inside", "anywhere"]),
    Default::Text("inside"),
    "Where symbolic links may lead: inside the root only, or anywhere.",
);
const FILE_PRECOMPRESSED: Key = Key::new(
    "precompressed",
    Kind::Choices(&["br", "zstd", "gzip"]),
    Default::Texts(&[]),
    "Compressed siblings to look for (`name.br`, `name.zst`, `name.gz`), the preferred one first.",
);
const FILE_TRY: Key = Key::new(
    "try",
    Kind::Texts("`\"{path}\"`, `\"{path}.html\"`, `\"/app.html\"`, and last perhaps `\"=404\"`"),
    Default::Texts(&[]),
    "What is looked for, in order, instead of the path alone: for single-page applications and the like.",
);
const FILE_HEADERS: Key = Key::new(
    "headers",
    Kind::Section(&HEADERS),
    Default::Absent("as they are"),
    "Header fields to set on, or remove from, responses of files.",
);

/// `[[site]]`
pub const SITE: Table = Table {
    title: "[[site]]",
    doc: "A site: one or several host names, and what answers there. Requests for a host that no site names go to the \
          first site.\n\nThe keys about files (`index` to `headers`) also hold for the site's routes that have a `root` \
          of their own, unless those say otherwise.",
    example: "[[site]]\nhosts = [\"example.com\", \"*.example.com\"]\nroot = \"/srv/www\"\n\
              precompressed = [\"br\", \"gzip\"]\nheaders = { set = { \"X-Frame-Options\" = \"DENY\" } }\n\
              error_pages = { 404 = \"/404.html\" }\n",
    keys: &[
        Key::new(
            "hosts",
            Kind::Texts("host names, `\"*.example.com\"` for any name below"),
            Default::Texts(&[]),
            "Names that this site answers to. Only the first site can do without.",
        ),
        Key::new(
            "root",
            Kind::Text("a directory"),
            Default::Absent("no files"),
            "Directory of the site's files, for every path that no route takes. A relative path starts at the \
             configuration file.",
        ),
        FILE_INDEX,
        FILE_LISTING,
        FILE_HIDDEN,
        FILE_SYMLINKS,
        FILE_PRECOMPRESSED,
        FILE_TRY,
        FILE_HEADERS,
        Key::new(
            "error_pages",
            Kind::Map("status = path"),
            Default::Absent("short texts"),
            "For a status from 400 to 599, the path of a file under the site's `root` that is sent as its body: for \
             errors of files, of pools, of request bodies, and for `respond` without a `body`. What an application \
             answers itself stays as it is.",
        ),
        Key::new(
            "certificates",
            Kind::Sections(&CERTIFICATE),
            Default::Absent("those of the first site that has some"),
            "Certificates for addresses with `tls`; several of different key types can stand side by side.",
        ),
        Key::new(
            "hsts",
            Kind::Text(
                "the value of `Strict-Transport-Security`, such as `\"max-age=31536000; includeSubDomains\"`",
            ),
            Default::Absent("not sent"),
            "Tell browsers to come by TLS only, from now on (RFC 6797). Stands on all responses of the site over TLS, those of \
             applications included.",
        ),
        Key::new(
            "acme",
            Kind::Flag,
            Default::Flag(false),
            "Whether Maitred gets a certificate for the site's `hosts` by itself, and renews it, as `[acme]` says. All of them have \
             to be whole names; wildcards cannot be proved this way.",
        ),
        Key::new(
            "route",
            Kind::Sections(&ROUTE),
            Default::Absent("none"),
            "What answers particular paths; the first route that matches decides.",
        ),
    ],
};

/// `[[site.certificates]]`
pub const CERTIFICATE: Table = Table {
    title: "[[site.certificates]]",
    doc: "A certificate of the site above it. Which one a client gets is decided by the name that it asks for (SNI) among the \
          sites, and then by the signatures that it can check: ECDSA and Ed25519 before RSA.\n\nThe files are read by the master \
          only, at a reload and whenever they change; a file that is broken then changes nothing, and is logged.",
    example: "[[site]]\nhosts = [\"example.com\"]\nroot = \"/srv/www\"\n\
              certificates = [{ certificate = \"fullchain.pem\", key = \"privkey.pem\" }]\n",
    keys: &[
        Key::new(
            "certificate",
            Kind::Text("a file"),
            Default::Required,
            "The site's certificate, and then those that lead from it to a root, in PEM.",
        ),
        Key::new(
            "key",
            Kind::Text("a file"),
            Default::Required,
            "The private key, in PEM, without a passphrase.",
        ),
        Key::new(
            "ocsp",
            Kind::Text("a file"),
            Default::Absent("none"),
            "An OCSP response for the certificate, in DER, to send along (stapling).",
        ),
    ],
};

/// `[[site.route]]`
pub const ROUTE: Table = Table {
    title: "[[site.route]]",
    doc: "What answers some paths of the site above it. Exactly one of `root`, `redirect`, `respond` and `pool`. Routes \
          are tried in the order of the file.",
    example: "[[site.route]]\npath = \"/app/*\"\npool = \"web\"\n\n[[site.route]]\npath = \"/old/*\"\n\
              redirect = \"https://example.com{uri}\"\nstatus = 301\n\n[[site.route]]\npath = \"*.bak\"\n\
              respond = { status = 404 }\n",
    keys: &[
        Key::new(
            "path",
            Kind::Text("`\"/exact\"`, `\"/prefix/*\"`, `\"*.php\"`, `\"/a/*/b\"`"),
            Default::Required,
            "Paths that this route takes. `*` stands for any run of characters, `/` included. `/prefix/*` does not take \
             `/prefix`.",
        ),
        Key::new(
            "methods",
            Kind::Texts("methods such as `\"GET\"`"),
            Default::Texts(&[]),
            "Methods that this route is for; empty is all that the target knows. `GET` takes `HEAD` too. Other methods go on to \
             the next route that matches; where there is none, they get 405.",
        ),
        Key::new(
            "root",
            Kind::Text("a directory"),
            Default::Absent("no files"),
            "Answer with files below this directory. The whole request path is looked up there, less `strip_prefix`.",
        ),
        Key::new(
            "strip_prefix",
            Kind::Text("a path that ends with `/`"),
            Default::Text("/"),
            "With `root`: what is taken off the request path before it is looked up.",
        ),
        FILE_INDEX,
        FILE_LISTING,
        FILE_HIDDEN,
        FILE_SYMLINKS,
        FILE_PRECOMPRESSED,
        FILE_TRY,
        FILE_HEADERS,
        Key::new(
            "redirect",
            Kind::Text("a URI; `{path}` and `{uri}` are filled in"),
            Default::Absent("no redirect"),
            "Answer with a redirect. `{path}` is the request's path, `{uri}` the path with its query.",
        ),
        Key::new(
            "status",
            Kind::Whole { min: 301, max: 308 },
            Default::Whole(302),
            "With `redirect`: 301, 302, 303, 307 or 308.",
        ),
        Key::new(
            "respond",
            Kind::Section(&RESPOND),
            Default::Absent("nothing fixed"),
            "Answer with a fixed response.",
        ),
        Key::new(
            "pool",
            Kind::Text("the name of a pool"),
            Default::Absent("no pool"),
            "Hand the request to `[pool.NAME]`.",
        ),
    ],
};

/// `respond`
pub const RESPOND: Table = Table {
    title: "respond",
    doc: "A fixed response of a route.",
    example: "[[site.route]]\npath = \"/gone\"\nrespond = { status = 410, body = \"This page is gone.\\n\" }\n",
    keys: &[
        Key::new("status", Kind::Whole { min: 200, max: 599 }, Default::Whole(200), "The status."),
        Key::new(
            "body",
            Kind::Text("text"),
            Default::Text(""),
            "The body. An error without one has the site's page for its status.",
        ),
        Key::new(
            "content_type",
            Kind::Text("a media type"),
            Default::Text("text/plain; charset=utf-8"),
            "The body's media type.",
        ),
    ],
};

/// `headers`
pub const HEADERS: Table = Table {
    title: "headers",
    doc: "Header fields of responses of files. Fields that delimit the message (`Content-Length`, `Transfer-Encoding`, \
          `Connection` and their like) are Maitred's own business and cannot be named.",
    example: "[[site]]\nroot = \"/srv/www\"\n\
              headers = { set = { \"Cache-Control\" = \"max-age=3600\" }, remove = [\"ETag\"] }\n",
    keys: &[
        Key::new(
            "set",
            Kind::Map("name = value"),
            Default::Absent("none"),
            "Fields to set; one that is there is replaced.",
        ),
        Key::new("remove", Kind::Texts("field names"), Default::Texts(&[]), "Fields to remove."),
    ],
};

/// `[pool.NAME]`
pub const POOL: Table = Table {
    title: "[pool.NAME]",
    doc: "A pool of application processes. With `command`, Maitred starts them and hands requests to them; with `command` and \
          `listen`, they accept connections by themselves; with `connect`, they run already. NAME is what routes call it: \
          letters, digits, `-` and `_`.",
    example: "[pool.web]\ncommand = [\"python3\", \"-m\", \"maitred\", \"app:application\"]\nworkers = 2\n\
              queue = { max = 1024, timeout = \"5s\" }\n",
    keys: &[
        Key::new(
            "command",
            Kind::Texts("program and arguments"),
            Default::Absent("nothing is started"),
            "What is started. It is not given to a shell. A program without `/` is looked for in `PATH`.",
        ),
        Key::new(
            "connect",
            Kind::TextOrTexts("`\"unix:/path\"` or `\"http://host:port\"`"),
            Default::Absent("not to a server that runs already"),
            "A server that runs already. `\"unix:/path\"` speaks the handoff protocol on that socket, as Apache httpd does with \
             mod_maitred, and gunicorn's arbiter; Maitred keeps `workers` channels to it, and connects again when it restarts. \
             `\"http://host:port\"` or `\"http+unix:/path\"` is any HTTP/1.1 server, which requests are passed on to; several \
             share the load.",
        ),
        Key::new(
            "listen",
            Kind::TextOrTexts("an address such as `\":8000\"`"),
            Default::Absent("they get requests from Maitred"),
            "With `command`: sockets that the processes inherit (`LISTEN_FDS`) and accept connections on by themselves. No route \
             leads to such a pool; Maitred only runs it.",
        ),
        Key::new(
            "buckets",
            Kind::WordOrWhole { words: &["auto", "per-thread"], min: 1, max: Buckets::MAX as u64 },
            Default::Text("auto"),
            "With `listen`: sockets of each address (`SO_REUSEPORT`), among which the processes are divided. `\"auto\"` is one \
             for each eight threads of Maitred, at least one; there are never more than `workers.max`.",
        ),
        Key::new(
            "affinity",
            Kind::Flag,
            Default::Flag(false),
            "With `listen`: keep the processes of a bucket on its share of the CPUs.",
        ),
        Key::new(
            "stop_signal",
            Kind::Choice(&["TERM", "QUIT", "INT", "HUP", "USR1", "USR2", "WINCH"]),
            Default::Text("TERM"),
            "With `listen`: the signal that asks a process to finish and end. One that is still there 5 seconds after \
             `request_timeout` is killed.",
        ),
        Key::new(
            "start_grace",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(SECOND),
            "With `listen`: how long a process is taken to be starting; it cannot say when it is ready. One that ends earlier \
             has failed to start. Set it to what the application needs to be loaded.",
        ),
        Key::new(
            "workers",
            Kind::WholeOrSection { min: 1, max: WORKERS_MAX, table: &WORKERS },
            Default::Absent("a table of defaults"),
            "How many processes. A number is kept as it is; a table says between which bounds the pool grows and shrinks.",
        ),
        Key::new(
            "cwd",
            Kind::Text("a directory"),
            Default::Absent("the configuration file's directory"),
            "Where the processes are started. A relative path starts at the configuration file.",
        ),
        Key::new("env", Kind::Map("NAME = value"), Default::Absent("nothing"), "Added to the environment."),
        Key::new(
            "user",
            Kind::Text("the name of an account"),
            Default::Absent("required when root starts the server; see `share_user` of `[server]`"),
            "The account of the processes, another one than the worker process has. Only root can change to another account.",
        ),
        Key::new(
            "queue",
            Kind::Section(&QUEUE),
            Default::Absent("all defaults"),
            "Requests that wait for a process.",
        ),
        requests::REQUEST_TIMEOUT,
        requests::REQUEST_TOTAL_TIMEOUT,
        Key::new(
            "connect_timeout",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(SECOND.saturating_mul(5)),
            "With `connect` to HTTP servers: how long one may take to accept a connection, before another one is asked or the client \
             gets 504. One that is there does so within a round trip; the default is enough for two lost packets.",
        ),
        Key::new(
            "start_timeout",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(Duration::from_secs(30)),
            "How long a process may take to say that it is ready.",
        ),
        Key::new(
            "health_interval",
            Kind::Time { min: Duration::ZERO, max: HOUR },
            Default::Time(SECOND.saturating_mul(10)),
            "How often an idle process is asked whether it is still there, and how long it may take to answer; then it is \
             replaced. 0 never asks.",
        ),
        Key::new(
            "open_files",
            Kind::Whole { min: 16, max: 1 << 20 },
            Default::Absent("the limit that Maitred was started with"),
            "Descriptors that each process may have open (`RLIMIT_NOFILE`). Maitred needs about one for each connection that \
             the process knows.",
        ),
        Key::new(
            "transport",
            Kind::Choice(&["auto", "direct", "relay"]),
            Default::Text("auto"),
            "What a process writes its response to. `\"direct\"` is the client's own socket, wherever that is possible; \
             `\"relay\"` is a socket that Maitred reads, checks and sends on. `\"auto\"` tries both \
             once a minute, under load, and keeps what takes less CPU time.",
        ),
        Key::new(
            "isolate",
            Kind::Flag,
            Default::Flag(false),
            "Never give these processes a client's socket, which cannot be taken back: for an application that is not \
             trusted with the clients of the others. The transport is then relay. Needs a `user` that nothing else has.",
        ),
        requests::STICKY_KEY,
        requests::MOUNT,
        requests::UPGRADE,
        requests::REQUEST_HEADERS_KEY,
        requests::EARLY_HINTS,
        requests::SENDFILE_ROOT,
    ],
};

/// `queue`
pub const QUEUE: Table = Table {
    title: "queue",
    doc: "Requests that wait for a process of a pool. Past either bound the client gets 503 with `Retry-After`.",
    example: "[pool.web]\ncommand = [\"./app\"]\nqueue = { max = 100, timeout = \"2s\" }\n",
    keys: &[
        Key::new(
            "max",
            Kind::Whole { min: 0, max: 1_000_000 },
            Default::Whole(1024),
            "How many may wait. 0 refuses at once what no process is idle for.",
        ),
        Key::new(
            "timeout",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(SECOND.saturating_mul(5)),
            "How long one may wait.",
        ),
    ],
};

/// `[log]`
pub const LOG: Table = Table {
    title: "[log]",
    doc: "Access log and error log. Files are opened anew on a reload, for log rotation.",
    example: "[log]\naccess = \"json\"\naccess_file = \"/var/log/maitred/access.log\"\nlevel = \"info\"\n",
    keys: &[
        Key::new(
            "access",
            Kind::Choice(&["combined", "json", "human", "off"]),
            Default::Text("combined"),
            "Form of the access log: Combined Log Format, one JSON object a line, short lines for a terminal, or none.",
        ),
        Key::new(
            "access_file",
            Kind::Text("a path"),
            Default::Absent("standard output"),
            "Where the access log goes. A relative path starts at the configuration file.",
        ),
        Key::new(
            "error_file",
            Kind::Text("a path"),
            Default::Absent("standard error"),
            "Where the error log goes.",
        ),
        Key::new(
            "level",
            Kind::Text(
                "`\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"`, `\"trace\"`, or a filter such as `\"info,maitred::pool=debug\"`",
            ),
            Default::Text("info"),
            "What the error log tells.",
        ),
    ],
};
