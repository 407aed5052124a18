//! The keys of a configuration file, each declared once.

use std::time::Duration;

use super::acme::ACME;
use super::defaults::DEFAULTS;
use super::keys::{Default, Key, Kind, Table};
use super::limits::LIMITS;
use super::listen::Buckets;
use super::logs::{ACCESS_LOG, LOG};
use super::workers::{CANARY_KEY, WORKERS, WORKERS_MAX};
use super::{
    access, arrivals, balancing, cache, client_limits, compress, cors, discovery, environment, expires,
    external, fastcgi, files, headers, health, jwt, media, mirror, modules, overrides, parts, reload,
    requests, response_buffering, retry, routes, security, trace,
};
use maitred_base::bounds::THREADS_MAX;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The top of the file.
pub(crate) const ROOT: Table = Table {
    title: "the top of the file",
    doc: "",
    example: "",
    keys: &[
        parts::IMPORT,
        parts::NETWORKS,
        Key::new(
            "server",
            Kind::Section(&SERVER),
            Default::Absent("all defaults"),
            "The process as a whole.",
        ),
        Key::new("listen", Kind::Sections(&LISTEN), Default::Required, "Addresses to listen on."),
        Key::new(
            "defaults",
            Kind::Section(&DEFAULTS),
            Default::Absent("nothing in common"),
            "What all sites have in common.",
        ),
        Key::new("site", Kind::Sections(&SITE), Default::Required, "Sites; the first is the default site."),
        Key::new("pool", Kind::Named(&POOL), Default::Absent("none"), "Application processes."),
        Key::new(
            "acme",
            Kind::Section(&ACME),
            Default::Absent("no automatic certificates"),
            "Certificates that Maitred obtains by itself.",
        ),
        Key::new(
            "limits",
            Kind::Section(&LIMITS),
            Default::Absent("all defaults"),
            "Limits on clients and other peers.",
        ),
        Key::new(
            "limit",
            Kind::Named(&client_limits::LIMIT),
            Default::Absent("none"),
            "Limits by client that sites and routes name.",
        ),
        Key::new("log", Kind::Section(&LOG), Default::Absent("all defaults"), "Access log and error log."),
        Key::new(
            "access_log",
            Kind::Named(&ACCESS_LOG),
            Default::Absent("none"),
            "Further access logs, which sites and routes name.",
        ),
        cache::STORE_KEY,
        Key::new("trace", Kind::Section(&trace::TRACE), Default::Absent("no traces"), "Distributed tracing."),
    ],
};

/// `[server]`
pub(crate) const SERVER: Table = Table {
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
            "Which CPU each thread is pinned to. `\"auto\"` pins one thread per CPU, and unpins a thread while another \
             process uses its CPU; the CPUs of a list are assigned in its order, and the threads stay pinned.",
        ),
        Key::new(
            "user",
            Kind::Text("the name of an account"),
            Default::Absent(
                "`maitred`, which has to exist, when root starts the server; otherwise the account that starts it",
            ),
            "The account of the worker process, which serves clients. It cannot be that of a pool, unless `share_user` says so. \
             Only root can change to another account.",
        ),
        Key::new(
            "share_user",
            Kind::Flag,
            Default::Flag(false),
            "Run the processes of pools without a `user` with the account of the worker process, and allow other pools to \
             name that account. Any application can then reach the connections of all clients, and stop the worker process. \
             Without a `user` in `[server]`, everything has the account that starts the server: for trying things out.",
        ),
        Key::new(
            "admin",
            Kind::Text("`\"unix:/path\"`, or a loopback address such as `\"127.0.0.1:9180\"`"),
            Default::Absent("nowhere"),
            "Where status, metrics and control are served: `maitred status`, `reload` and `stop` connect to it. A socket \
             file is made with mode 0600; a TCP address must be a loopback address.",
        ),
        Key::new(
            "admin_token",
            Kind::Text("a path"),
            Default::Absent("no commands by TCP"),
            "For a TCP `admin` address, which every local user and every application reaches: where the server keeps the \
             token that commands take (`Authorization: Bearer …`), made at the start with mode 0600. `maitred reload` and \
             the other commands read it. Status and metrics need no token.",
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
            Kind::Texts("addresses, networks such as `\"10.0.0.0/8\"`, and `\"unix\"`"),
            Default::Texts(&[]),
            "Proxies in front of this server; `\"unix\"` is any that connects over a Unix socket. Their fields about the client (`Forwarded`, `X-Forwarded-*`, `X-Request-Id`) \
             are trusted, extended and passed to applications; those of any other peer are replaced. The client's address in \
             logs is then the last one in `X-Forwarded-For` (or `Forwarded`) that is not a trusted proxy; see \
             `client_address_from`.",
        ),
        requests::CLIENT_ADDRESS_FROM,
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
            "Data that is kept over restarts: automatic certificates and their account. The directory is made with mode 0700.",
        ),
        Key::new(
            "server_header",
            Kind::Flag,
            Default::Flag(true),
            "Whether responses that name no server say `Server: maitred`, also those of application processes.",
        ),
        requests::ENCODED_SLASHES,
        requests::PATH_PARAMETERS,
        Key::new(
            "seccomp",
            Kind::Flag,
            Default::Flag(true),
            "Whether worker processes, and the process for automatic certificates, may make only the system calls that they \
             need (seccomp(2)). Any other system call ends the process, and the log says that it was killed by SIGSYS; \
             `false` is for a machine whose C library needs a call that is not in the list.",
        ),
        discovery::RESOLVER,
    ],
};

/// `[[listen]]`
pub(crate) const LISTEN: Table = Table {
    title: "[[listen]]",
    doc: "An address to listen on; there can be several.",
    example: "[[listen]]\naddress = \"0.0.0.0:8080\"\n\n[[listen]]\naddress = \"[::]:8080\"\n",
    keys: &[
        arrivals::NAME,
        Key::new(
            "address",
            Kind::TextOrTexts("`\"0.0.0.0:8080\"`, `\"[::1]:8080\"`, `\":8080\"` or `\"unix:/path\"`"),
            Default::Required,
            "Address and port; of several, each gets the other keys of this entry. `\":8080\"` is short for `\"0.0.0.0:8080\"`, all addresses of IPv4. `\"[::]:8080\"` is all \
             addresses of IPv6, and of IPv4 too if no other entry has that port. Port 0 lets the kernel choose. `\"unix:/path\"` \
             is a Unix socket, for a proxy on the same machine; see [Unix sockets](proxies.md#unix-sockets). A relative path \
             starts at the configuration file.",
        ),
        Key::new(
            "unix_mode",
            Kind::Text("octal permissions"),
            Default::Text("0660"),
            "Permissions of the file of a Unix socket: to connect takes the permission to write it.",
        ),
        Key::new(
            "unix_user",
            Kind::Text("an account"),
            Default::Absent("the account that starts the server"),
            "Owner of the file of a Unix socket. Only root can give a file away.",
        ),
        Key::new(
            "unix_group",
            Kind::Text("a group"),
            Default::Absent("the group of the account that starts the server"),
            "Group of the file of a Unix socket: that of the proxy in front. An account that is not root has to be a member.",
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
            "Let the kernel hold a new connection until its first bytes have arrived (`TCP_DEFER_ACCEPT`, tcp(7)). The \
             server then reads at once, without waiting for the connection first, which halves the cost of a connection with \
             one request. A connection without bytes is accepted after a second.",
        ),
        Key::new(
            "proxy_protocol",
            Kind::Flag,
            Default::Flag(false),
            "Whether connections start with a header of the PROXY protocol, version 1 or 2, that names the client's address. \
             A connection without the header is closed.",
        ),
        Key::new(
            "proxy_protocol_from",
            Kind::Texts("addresses and networks such as `\"10.0.0.0/8\"`"),
            Default::Absent("loopback addresses and `trusted_proxies`"),
            "With `proxy_protocol`: addresses that may connect. Any other peer could claim any client address; its \
             connection is closed at once.",
        ),
        Key::new(
            "tls",
            Kind::Section(&TLS),
            Default::Absent("cleartext"),
            "Use TLS at this address. `tls = {}` is all defaults; the certificates belong to the sites.",
        ),
        Key::new(
            "http2",
            Kind::Flag,
            Default::Flag(true),
            "Whether HTTP/2 is offered besides HTTP/1.1: over TLS the client chooses (ALPN); in cleartext the client starts \
             with the HTTP/2 preface (prior knowledge).",
        ),
        Key::new(
            "http3",
            Kind::Flag,
            Default::Flag(false),
            "Whether HTTP/3 is offered besides, over QUIC, at the UDP port with the number of the TCP port: a firewall has to \
             let that through, too. It needs `tls` with version 1.3. Each event-loop thread has a socket of its own there; \
             their number stays what it was when they were bound, also if a reload changes `threads`. A service manager's UDP \
             sockets are not used: Maitred binds these by itself.",
        ),
        Key::new(
            "redirect_http",
            Kind::Flag,
            Default::Flag(false),
            "Answer every request with a redirect (308, which keeps the method, unless `redirect_status` says otherwise) to `https` at the same host, and to the port \
             of the first address with `tls`. Challenges of ACME (`/.well-known/acme-challenge/`) are still answered.",
        ),
        Key::new(
            "redirect_status",
            Kind::Whole { min: 301, max: 308 },
            Default::Whole(308),
            "With `redirect_http`: 301, 302, 307 or 308. Clients may turn a POST into a GET with 301 and 302 (RFC 9110 section \
             15.4).",
        ),
        arrivals::MISDIRECTED,
    ],
};

/// `tls`
pub(crate) const TLS: Table = Table {
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
            "Versions of TLS that are offered.",
        ),
        Key::new(
            "ciphers",
            Kind::Choices(maitred_base::pki::choice::CIPHERS),
            Default::Texts(maitred_base::pki::choice::CIPHERS),
            "Cipher suites that are used, by the names of rustls: `TLS13_…` are those of TLS 1.3, `TLS_ECDHE_…` those of \
             1.2, each for certificates with a key of the named kind. Each of `versions` needs one. The client's order of \
             preference decides.",
        ),
        Key::new(
            "curves",
            Kind::Choices(maitred_base::pki::choice::CURVES),
            Default::Texts(maitred_base::pki::choice::CURVES),
            "Groups of the key exchange that are used (OpenSSL and nginx call them curves). `X25519MLKEM768`, a post-quantum \
             hybrid, is for TLS 1.3 only.",
        ),
        Key::new(
            "client_auth",
            Kind::Choice(&["off", "optional", "required"]),
            Default::Text("off"),
            "Whether clients are asked for a certificate. With `\"optional\"`, a client without a certificate is served, \
             too; an invalid certificate ends the connection in either case. Applications get the verified subject \
             (`X-SSL-Client-*`).",
        ),
        Key::new(
            "client_ca",
            Kind::Text("a file"),
            Default::Absent("no authority is trusted"),
            "With `client_auth`: the certificates, in PEM, of the authorities that sign valid client certificates.",
        ),
        Key::new(
            "client_crl",
            Kind::Text("a file"),
            Default::Absent("nothing is revoked"),
            "With `client_auth`: certificate revocation lists, in PEM, one for each authority in the certificate's chain. A \
             certificate that is revoked, whose authority has no list here, or whose list is past its `nextUpdate`, is \
             invalid. The file is read again when it changes.",
        ),
        Key::new(
            "early_data",
            Kind::Flag,
            Default::Flag(false),
            "Whether a client that resumes a session may send a request with its first bytes (0-RTT). Only requests of safe \
             methods are answered that early, others get 425; sessions are then kept in memory, and do not survive a reload.",
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
            "Append the secrets of all sessions to this file, so that Wireshark can decrypt recorded connections. For \
             debugging only: any reader of the file can decrypt all connections.",
        ),
        Key::new(
            "ktls",
            Kind::Choice(&["auto", "on", "off"]),
            Default::Text("auto"),
            "Whether the kernel encrypts what is sent by HTTP/1.1 over TLS 1.3, where its module `tls` is loaded: long files then go \
             to the socket without a copy, and an application process answers on the client's own connection. `\"auto\"` is \
             `\"off\"` for now: that it is cheaper has not been measured on real hardware.",
        ),
    ],
};

/// `[[site]]`
pub(crate) const SITE: Table = Table {
    title: "[[site]]",
    doc: "A site: one or several host names, and their content. Requests for any other host go to the first site, or \
          to the first one that answers at the listener ([`listen`](routing.md#sites-of-a-listener)).\n\nThe \
          keys about files (`index` to `headers`) also hold for the site's routes that have a `root` of their own, unless \
          those say otherwise.",
    example: "[[site]]\nhosts = [\"example.com\", \"*.example.com\"]\nroot = \"/srv/www\"\n\
              precompressed = [\"br\", \"gzip\"]\nheaders = { set = { \"X-Frame-Options\" = \"DENY\" } }\n\
              error_pages = { 404 = \"/404.html\" }\n",
    keys: &[
        Key::new(
            "hosts",
            Kind::Texts("host names, `\"*.example.com\"` for any name below"),
            Default::Texts(&[]),
            "Host names of this site. Only the first site of a listener can do without.",
        ),
        arrivals::SITE_LISTEN,
        Key::new(
            "root",
            Kind::Text("a directory"),
            Default::Absent("no files"),
            "Directory of the site's files, for every path that no route takes. A relative path starts at the \
             configuration file.",
        ),
        files::INDEX,
        files::LISTING,
        files::HIDDEN,
        files::SYMLINKS,
        files::PRECOMPRESSED,
        files::TRY,
        files::HEADERS,
        media::TYPES,
        media::CHARSET,
        media::CHARSET_TYPES,
        access::ALLOW,
        access::DENY,
        access::BASIC,
        jwt::KEY,
        access::FORWARD,
        access::SATISFY,
        client_limits::KEY,
        routes::METHODS_OF_SITE,
        routes::ERROR_PAGES,
        overrides::LIMITS_KEY,
        overrides::ACCESS_LOG,
        overrides::SERVER_HEADER,
        overrides::REQUEST_BUFFERING,
        overrides::GRPC_WEB,
        response_buffering::KEY,
        mirror::KEY,
        modules::KEY,
        overrides::DELAY,
        headers::RESPONSE_KEY,
        expires::KEY,
        cors::KEY,
        security::KEY,
        compress::KEY,
        cache::KEY,
        headers::REQUEST_KEY,
        Key::new(
            "certificates",
            Kind::Sections(&CERTIFICATE),
            Default::Absent("those of the first site that has some"),
            "Certificates for addresses with `tls`; several of different key types can stand side by side.",
        ),
        requests::ENCODED_SLASHES_OF_SITE,
        Key::new(
            "hsts",
            Kind::Text(
                "the value of `Strict-Transport-Security`, such as `\"max-age=31536000; includeSubDomains\"`",
            ),
            Default::Absent("not sent"),
            "Tell browsers to use TLS only from now on (RFC 6797). Set on all responses of the site over TLS, those of \
             applications included.",
        ),
        Key::new(
            "acme",
            Kind::FlagOrChoice(&["on-demand"]),
            Default::Flag(false),
            "Whether Maitred obtains and renews a certificate for the site's `hosts` by itself, with the settings of \
             `[acme]`. Wildcards need `dns` there. With `\"on-demand\"` each name that a client asks for has a certificate of its \
             own, if the service of `on_demand` allows it.",
        ),
        Key::new(
            "route",
            Kind::Sections(&routes::ROUTE),
            Default::Absent("none"),
            "Handlers of particular paths; the first route that matches decides.",
        ),
    ],
};

/// `[[site.certificates]]`
pub(crate) const CERTIFICATE: Table = Table {
    title: "[[site.certificates]]",
    doc: "A certificate of the site above it. The name that the client asks for (SNI) selects the site, and the signature \
          algorithms of the client select the certificate: ECDSA and Ed25519 before RSA.\n\nThe files are read by the master \
          only, at a reload and whenever they change; an invalid file is logged and ignored.",
    example: "[[site]]\nhosts = [\"example.com\"]\nroot = \"/srv/www\"\n\
              certificates = [{ certificate = \"fullchain.pem\", key = \"privkey.pem\" }]\n",
    keys: &[
        Key::new(
            "certificate",
            Kind::Text("a file"),
            Default::Required,
            "The site's certificate, followed by the intermediate certificates, in PEM.",
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

/// `[pool.NAME]`
pub(crate) const POOL: Table = Table {
    title: "[pool.NAME]",
    doc: "A pool of application processes. With `command`, Maitred starts them and hands requests to them; with `command` \
          and `listen`, they accept connections by themselves; with `connect`, an external server has them. NAME is used by \
          routes: letters, digits, `-` and `_`.",
    example: "[pool.web]\ncommand = [\"python3\", \"-m\", \"maitred\", \"app:application\"]\nworkers = 2\n\
              queue = { max = 1024, timeout = \"5s\" }\n",
    keys: &[
        Key::new(
            "command",
            Kind::Texts("program and arguments"),
            Default::Absent("nothing is started"),
            "Program and arguments of a process, without a shell. A program without `/` is searched in `PATH`.",
        ),
        Key::new(
            "connect",
            Kind::TextsOrSections(
                "`\"unix:/path\"`, `\"http://host:port\"` or `\"fastcgi://host:port\"`",
                &balancing::SERVER,
            ),
            Default::Absent("no external server"),
            "An external server. `\"unix:/path\"` is a socket with the handoff protocol, as of Apache httpd with \
             mod_maitred, or of gunicorn's arbiter; Maitred keeps `workers` channels to it, and connects again when the \
             server restarts. `\"http://host:port\"` or `\"http+unix:/path\"` is any HTTP/1.1 server, to which requests are \
             forwarded; `\"https://host:port\"` is one that is spoken to over TLS. `\"h2://host:port\"` or `\"h2+unix:/path\"` is a \
             server of HTTP/2 that needs no TLS, such as one of gRPC. `\"fastcgi://host:port\"` or `\"fastcgi+unix:/path\"` is a \
             FastCGI application such as php-fpm. Of all these kinds, several share the load; a table in place of a string \
             says more of a server. See [balancing](balancing.md).",
        ),
        Key::new(
            "listen",
            Kind::TextOrTexts("an address such as `\":8000\"`"),
            Default::Absent("they get requests from Maitred"),
            "With `command`: sockets that the processes inherit (`LISTEN_FDS`) and accept connections on by themselves. Such \
             a pool has no route; Maitred only manages its processes.",
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
            "With `listen`: the signal for a graceful stop. A process that still runs 5 seconds after `request_timeout` is \
             killed.",
        ),
        Key::new(
            "start_grace",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(SECOND),
            "With `listen`: how long a process counts as starting, because it cannot report readiness. A process that ends \
             earlier has failed to start. Set it to the time that the application needs to load.",
        ),
        Key::new(
            "workers",
            Kind::WholeOrSection { min: 1, max: WORKERS_MAX, table: &WORKERS },
            Default::Absent("a table of defaults"),
            "Number of processes. A number is fixed; a table has the bounds between which the pool scales up and down.",
        ),
        Key::new(
            "cwd",
            Kind::Text("a directory"),
            Default::Absent("the configuration file's directory"),
            "Where the processes are started. A relative path starts at the configuration file.",
        ),
        Key::new("env", Kind::Map("NAME = value"), Default::Absent("nothing"), "Added to the environment."),
        environment::KEY,
        Key::new(
            "user",
            Kind::Text("the name of an account"),
            Default::Absent("required when root starts the server; see `share_user` of `[server]`"),
            "The account of the processes; it differs from that of the worker process. Only root can change to another account.",
        ),
        Key::new(
            "queue",
            Kind::Section(&QUEUE),
            Default::Absent("all defaults"),
            "Requests that wait for a process, or for a server with `max_connections`.",
        ),
        super::upstream_tls::UPSTREAM_TLS_KEY,
        balancing::BALANCE,
        balancing::HASH_KEY,
        balancing::SLOW_START,
        balancing::PANIC,
        balancing::OUTLIERS_KEY,
        health::HEALTH_KEY,
        retry::RETRY_KEY,
        discovery::RESOLVE,
        discovery::ENDPOINTS,
        external::HOST,
        external::PROXY_PROTOCOL,
        external::MAP_REDIRECTS,
        external::REDIRECTS,
        external::COOKIES_KEY,
        requests::REQUEST_TIMEOUT,
        requests::REQUEST_TOTAL_TIMEOUT,
        requests::RESPONSE_HEAD_BYTES_MAX,
        requests::RESPONSE_FIELDS_MAX,
        Key::new(
            "connect_timeout",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(SECOND.saturating_mul(5)),
            "With `connect` to HTTP or FastCGI servers: how long a server may take to accept a connection, before the next server is \
             tried or the client gets 504. A reachable server accepts within a round trip; the default is enough for two \
             lost packets.",
        ),
        Key::new(
            "start_timeout",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(Duration::from_secs(30)),
            "How long a process may take to report readiness.",
        ),
        Key::new(
            "exit_grace",
            Kind::Time { min: Duration::ZERO, max: HOUR },
            Default::Time(SECOND.saturating_mul(2)),
            "How long a process that ends by itself may take for what it does at exit, such as sending reports of errors, before it \
             is killed.",
        ),
        CANARY_KEY,
        Key::new(
            "health_interval",
            Kind::Time { min: Duration::ZERO, max: HOUR },
            Default::Time(SECOND.saturating_mul(10)),
            "Interval of health checks (PING) of an idle process, and how long it may take to answer before it is replaced. \
             0: no checks.",
        ),
        Key::new(
            "open_files",
            Kind::Whole { min: 16, max: 1 << 20 },
            Default::Absent("the limit that Maitred was started with"),
            "Descriptors that each process may have open (`RLIMIT_NOFILE`). A process needs about one for each connection \
             that Maitred passes to it.",
        ),
        Key::new(
            "transport",
            Kind::Choice(&["auto", "direct", "relay"]),
            Default::Text("auto"),
            "Where a process writes its response. `\"direct\"`: to the client's own socket, wherever that is possible. \
             `\"relay\"`: to a socket that Maitred reads, checks and forwards. `\"auto\"` measures both once a minute, under \
             load, and uses the one that takes less CPU time.",
        ),
        Key::new(
            "isolate",
            Kind::Flag,
            Default::Flag(false),
            "Never pass a client's socket to these processes, since it cannot be revoked: for an application that is not \
             trusted. The transport is then relay. Needs a `user` that no other pool and no process of Maitred has.",
        ),
        requests::STICKY_KEY,
        requests::MOUNT,
        requests::UPGRADE,
        requests::REQUEST_HEADERS_KEY,
        requests::TARGET,
        requests::ENCODED_SLASHES_OF_POOL,
        requests::TRUSTED_FIELDS,
        requests::EARLY_HINTS,
        requests::SENDFILE_ROOT,
        requests::NAMED_FILES,
        fastcgi::ROOT,
        fastcgi::SCRIPT_ROOT,
        fastcgi::INDEX,
        fastcgi::PHP,
        fastcgi::SCRIPT_FILENAME,
        fastcgi::PARAMS,
        fastcgi::REQUEST_URI,
    ],
};

/// `queue`
pub(crate) const QUEUE: Table = Table {
    title: "queue",
    doc: "Requests that wait for a process of a pool, or for one of its servers if each has a limit (`max_connections`). Beyond \
          either bound the client gets 503 with `Retry-After`.",
    example: "[pool.web]\ncommand = [\"./app\"]\nqueue = { max = 100, timeout = \"2s\" }\n",
    keys: &[
        Key::new(
            "max",
            Kind::Whole { min: 0, max: 1_000_000 },
            Default::Whole(1024),
            "Requests that may wait. With 0, a request is refused at once if no process is idle, or no server has room.",
        ),
        Key::new(
            "timeout",
            Kind::Time { min: Duration::from_millis(1), max: HOUR },
            Default::Time(SECOND.saturating_mul(5)),
            "How long a request may wait.",
        ),
    ],
};
