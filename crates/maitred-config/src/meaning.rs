//! What a configuration means, after every check.
//!
//! Nothing later re-checks what stands here: an impossible combination has no value of these types, or was refused
//! with its place in the file. The types are serialised to hand them to the worker process.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use maitred_http::limits::ResponseBounds;
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::access::UsersFile;
use super::acme::Acme;
use super::balancing::Balancing;
use super::cache::{CacheStore, Caching};
use super::client_limits::ClientLimit;
use super::coding::Coding;
use super::compress::Compression;
use super::conditions::Conditions;
use super::cors::Cors;
use super::discovery::Discovery;
use super::expires::Expires;
use super::external::External;
pub use super::external::Upstream;
use super::fastcgi::FastCgi;
use super::headers::{RequestHeaderRules, ResponseHeaders};
use super::health::Health;
use super::identity::Identity;
use super::jwt::JwtKeys;
use super::listen::{Buckets, Listen};
use super::logs::{AccessLog, Log};
use super::media::MediaTypes;
use super::modules::ModuleUse;
use super::overrides::Overrides;
pub use super::paths::PathPattern;
pub use super::requests::RequestHeaders;
use super::rewrites::Rewrite;
use super::security::SecurityHeaders;
use super::template::Template;
use super::trace::Trace;
use super::upstream_tls::UpstreamTls;
pub use super::values::Network;
use super::values::is_within;
use maitred_base::pool::canary;
use maitred_base::pool::settings::Settings;

/// A whole configuration. `sites` is never empty; its first entry is the default site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Process-wide settings.
    pub server: Server,
    /// Addresses to listen on; never empty.
    pub listens: Vec<Listen>,
    /// Sites in the order of the file; the first is the default site.
    pub sites: Vec<Site>,
    /// Application pools in the order of the file; [`Target::Pool`] names one by its index here.
    pub pools: Vec<Pool>,
    /// `[acme]`: how sites get automatic certificates; there if a site has one.
    pub acme: Option<Acme>,
    /// Bounds on what a peer may ask for.
    pub limits: Limits,
    /// `[limit.NAME]`, in the order of the file; `limit` of sites and routes names them by their indexes here.
    /// And, behind them, those of addresses that `[limits]` has ([`TLS_HANDSHAKES`](super::TLS_HANDSHAKES)).
    pub client_limits: Vec<ClientLimit>,
    /// The keys that `jwt` of sites and routes names by their indexes here; at most 64 sets.
    pub key_sets: Vec<JwtKeys>,
    /// Files of users, which `basic_auth` of sites and routes names by their indexes here.
    pub users_files: Vec<UsersFile>,
    /// How many answers are kept for each table of `forward_auth` with a `cache`, which name these by their indexes here; at most
    /// 64.
    pub auth_caches: Vec<u32>,
    /// Where the logs go, and how they look.
    pub log: Log,
    /// `[access_log.NAME]`, in the order of the file; at most 16.
    pub access_logs: Vec<AccessLog>,
    /// `[trace]`; `None`: what comes of it passes as it is.
    pub trace: Option<Trace>,
    /// `[cache]`; `None`: no route keeps responses.
    pub cache: Option<CacheStore>,
}

impl Config {
    /// Whether anything needs keys or certificates: TLS of a listener, or towards the servers of a pool.
    pub fn has_tls(&self) -> bool {
        let pools = || self.pools.iter().any(|pool| pool.tls.is_some());
        self.listens.iter().any(|listen| listen.tls.is_some()) || pools()
    }
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// `threads`: `None` is "auto", one per usable CPU (mask and cgroup quota respected).
    pub threads: Option<u16>,
    /// `affinity`
    pub affinity: Affinity,
    /// `user`: the account of the worker process when the master is root; filled in if the file does not name it.
    pub user: Option<Identity>,
    /// `share_user`: application processes may have the account of the worker process.
    pub share_user: bool,
    /// `admin`: where status, metrics and control are served; `None` is nowhere.
    pub admin: Option<AdminAddress>,
    /// `admin_token`: the file with what commands by TCP take; absolute.
    pub admin_token: Option<PathBuf>,
    /// `pid_file`
    pub pid_file: Option<PathBuf>,
    /// `grace`: how long a stopping worker process may take to finish what it has, and a connection of a replaced one may be
    /// idle.
    pub grace: Duration,
    /// `grace_streams`: how long requests that are under way may go on in one that was replaced; `None` is without a limit.
    pub grace_streams: Option<Duration>,
    /// `old_workers_max`: how many that were replaced may be there at a time.
    pub old_workers_max: u16,
    /// `trusted_proxies`, with `client_address_from`.
    pub trusted_proxies: TrustedProxies,
    /// `spool`: the directory of the unnamed files that hold bodies over `body_memory_bytes_max`; absolute.
    pub spool: PathBuf,
    /// `state`: the directory of persistent state; absolute.
    pub state: PathBuf,
    /// `server_header`: whether responses that name no server say `Server: maitred`.
    pub server_header: bool,
    /// `seccomp`: whether worker processes and the agent for certificates are bound to a list of system calls.
    pub seccomp: bool,
    /// `resolver`: name servers; those of the system if there are none.
    pub resolver: Vec<SocketAddr>,
    /// `encoded_slashes`
    pub encoded_slashes: EncodedSlashes,
    /// `path_parameters`: whether a path may have `;`.
    pub path_parameters: bool,
}

/// Peers whose forwarding headers are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedProxies {
    /// `trusted_proxies`
    pub networks: Vec<Network>,
    /// `"unix"` among these: peers on a Unix socket.
    #[serde(default)]
    pub unix: bool,
    /// `client_address_from`, in small letters: the field that has the client's address. `None` is `X-Forwarded-For`, and
    /// `Forwarded` where that is missing.
    pub field: Option<String>,
}

impl TrustedProxies {
    /// Whether a peer is one of them; `None` is one on a Unix socket.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.unix, |peer| is_within(peer, &self.networks))
    }

    /// Whether this is the field that has the client's address.
    pub fn names(&self, field: &str) -> bool {
        self.field.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(field))
    }
}

/// `encoded_slashes = "decode" | "keep" | "reject"`: what `%2F` in a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EncodedSlashes {
    /// A slash.
    Decode,
    /// A slash for routes, and encoded for applications.
    Keep,
    /// A reason for 400.
    Reject,
}

impl From<EncodedSlashes> for maitred_http::uri::Slashes {
    fn from(slashes: EncodedSlashes) -> Self {
        match slashes {
            EncodedSlashes::Decode => Self::Decode,
            EncodedSlashes::Keep => Self::Keep,
            EncodedSlashes::Reject => Self::Reject,
        }
    }
}

/// `affinity = "auto" | "off" | "0-3,8"`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Affinity {
    /// Pin one thread to each usable CPU, and unpin it while something else takes that CPU.
    Auto,
    /// Pin nothing.
    Off,
    /// Pin to these CPUs, in this order, and leave them there. Never empty, no repeats.
    Cpus(Vec<u16>),
}

/// `admin = "unix:/run/maitred.sock" | "127.0.0.1:9180"`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminAddress {
    /// A Unix socket, made with mode 0600.
    Unix(PathBuf),
    /// A TCP address; the configuration refuses any but a loopback address.
    Tcp(SocketAddr),
}

/// An entry of `certificates`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Certificate {
    /// Files that the master reads.
    Files {
        /// `certificate`: the certificate of the site, and then those that lead from it to a root, in PEM.
        certificate: PathBuf,
        /// `key`: the private key, in PEM.
        key: PathBuf,
        /// `ocsp`: an OCSP response to staple, in DER.
        ocsp: Option<PathBuf>,
    },
    /// Made at the start by the master, for `maitred serve --tls`.
    SelfSigned,
    /// The file where `maitred_agents::acme` keeps key and certificates of the site; it may not be there yet.
    Automatic(PathBuf),
}

/// `[[site]]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// `hosts`; empty only for the first site of a listener.
    pub hosts: Vec<HostPattern>,
    /// `listen`: indexes of the listeners that it answers at, ascending; `None`: at all of them.
    pub listens: Option<Vec<u16>>,
    /// `[[site.route]]` in the order of the file, tried in that order: the first that matches decides. A site's own
    /// `root` is the last route, with the pattern `*`. What no route matches gets 404.
    pub routes: Vec<Route>,
    /// `error_pages`: status → path under the site's root, sorted by status.
    pub error_pages: Vec<(u16, String)>,
    /// The site's own files, also where `error_pages` are looked up.
    pub files: Option<Files>,
    /// `certificates`, in the order of the file. Over TLS, a site without one is served with those of the first site that
    /// has some.
    pub certificates: Vec<Certificate>,
    /// `encoded_slashes`; `None` is as the server has it.
    pub encoded_slashes: Option<EncodedSlashes>,
    /// `hsts`: the value of `Strict-Transport-Security` on the site's responses over TLS (RFC 6797).
    pub hsts: Option<String>,
    /// `acme`: whether it has an automatic certificate; then it has at least one host, and no address.
    pub acme: bool,
    /// `acme = "on-demand"`: whether each name that a client asks for has a certificate of its own.
    pub on_demand: bool,
    /// `response_headers`
    pub response_headers: ResponseHeaders,
    /// `expires`; `None` where it is not given.
    pub expires: Option<Expires>,
    /// `cors`
    pub cors: Option<Cors>,
    /// `security_headers`; `None` where it is not given.
    pub security_headers: Option<SecurityHeaders>,
    /// `compress`; `None` where it is not given.
    pub compress: Option<Compression>,
    /// `cache`; `None` where it is not given.
    pub cache: Option<Caching>,
    /// `request_headers`
    pub request_headers: RequestHeaderRules,
    /// Who may use it.
    pub access: Access,
    /// `module`: asked for all routes, before those of the route.
    pub modules: Vec<ModuleUse>,
    /// `limits`, `access_log`, `server_header`, `request_buffering`, `grpc_web`, `mirror`, `delay`
    pub overrides: Overrides,
}

/// A name in `hosts`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HostPattern {
    /// `example.com`
    Exact(String),
    /// `*.example.com`, kept as `.example.com`: any one or more labels before it.
    Suffix(String),
}

impl std::fmt::Display for HostPattern {
    /// As it is written in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// `[[site.route]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// `path`: any of these; never empty.
    pub patterns: Vec<PathPattern>,
    /// `path_regex`
    pub path_regex: Option<String>,
    /// `match`
    pub conditions: Conditions,
    /// `methods`: upper case; empty is all that the target knows.
    pub methods: Vec<String>,
    /// What is changed in the request's target before it is answered.
    pub rewrite: Rewrite,
    /// What answers.
    pub target: Target,
    /// For a pool with scripts: its `root`, with the options that the site has for files.
    pub scripts: Option<Files>,
    /// `front_controller`: the one that answers all requests, as a path below that; begins with `/`.
    pub front_controller: Option<String>,
    /// `response_headers`
    pub response_headers: ResponseHeaders,
    /// `expires`; `None` where it is not given.
    pub expires: Option<Expires>,
    /// `cors`
    pub cors: Option<Cors>,
    /// `security_headers`; `None` where it is not given.
    pub security_headers: Option<SecurityHeaders>,
    /// `compress`; `None` where it is not given.
    pub compress: Option<Compression>,
    /// `cache`; `None` where it is not given.
    pub cache: Option<Caching>,
    /// `request_headers`
    pub request_headers: RequestHeaderRules,
    /// Who may use it.
    pub access: Access,
    /// `module`: what answers, if `target` is [`Target::Modules`]; otherwise asked before that.
    pub modules: Vec<ModuleUse>,
    /// `error_pages`, sorted by status; they come before those of the site.
    pub error_pages: Vec<(u16, String)>,
    /// `limits`, `access_log`, `server_header`, `request_buffering`, `grpc_web`, `mirror`, `delay`; they come before those of
    /// the site.
    pub overrides: Overrides,
}

/// What answers a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// Files below a directory.
    Files(Files),
    /// `redirect = "https://example.com{uri}"`, `status` 301, 302, 303, 307 or 308. `{path}` and `{uri}` are filled in.
    Redirect {
        /// The template of the `Location` field.
        to: Template,
        /// The status.
        status: u16,
    },
    /// `respond = { status = 410, body = "gone" }`
    Respond {
        /// The status, 200 to 599.
        status: u16,
        /// The body; may be empty.
        body: String,
        /// The media type of the body.
        content_type: String,
    },
    /// `pool = "web"`, as an index into [`Config::pools`].
    Pool(usize),
    /// `reroute = "/index.php"`: the routes are tried again, with this path, and this query if it has one.
    Reroute(Template),
    /// The modules of the route.
    Modules,
}

impl Route {
    /// A route for these paths that changes nothing.
    pub fn new(pattern: PathPattern, target: Target) -> Route {
        Route {
            patterns: vec![pattern],
            path_regex: None,
            conditions: Conditions::default(),
            methods: Vec::new(),
            rewrite: Rewrite::default(),
            target,
            scripts: None,
            front_controller: None,
            expires: None,
            cors: None,
            security_headers: None,
            compress: None,
            cache: None,
            response_headers: ResponseHeaders::default(),
            request_headers: RequestHeaderRules::default(),
            access: Access::default(),
            modules: Vec::new(),
            error_pages: Vec::new(),
            overrides: Overrides::default(),
        }
    }
}

/// Files below a directory: a site's `root`, or a route's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Files {
    /// `root`: absolute after reading (a relative path starts at the configuration file's directory).
    pub root: PathBuf,
    /// `strip_prefix`: what is taken off the request path before it is looked up below `root`. Always starts and
    /// ends with `/`; "/" takes nothing off.
    pub strip_prefix: String,
    /// `index`: names that are tried in a directory, in order.
    pub index: Vec<String>,
    /// `listing`: whether a directory without an index is listed.
    pub listing: bool,
    /// `hidden`: whether names that start with a dot are served (`.well-known` always is).
    pub hidden: bool,
    /// `symlinks`: whether symbolic links may leave the root.
    pub symlinks_may_leave: bool,
    /// `precompressed`: siblings to look for, in order of preference.
    pub precompressed: Vec<Coding>,
    /// `try`: templates (`{path}`), tried in order; empty is `["{path}"]`. A last item `=404` gives that status.
    pub try_files: Vec<TryItem>,
    /// `headers`: what is set on, or removed from, responses of files.
    pub headers: HeaderRules,
    /// `types`, `charset`, `charset_types`
    pub media: Box<MediaTypes>,
}

impl Files {
    /// The files below a directory, with no options.
    pub fn plain(root: PathBuf, strip_prefix: String) -> Files {
        Files {
            root,
            strip_prefix,
            index: Vec::new(),
            listing: false,
            hidden: false,
            symlinks_may_leave: false,
            precompressed: Vec::new(),
            try_files: Vec::new(),
            headers: HeaderRules::default(),
            media: Box::default(),
        }
    }
}

/// An item of `try`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TryItem {
    /// `{path}` with something before or after it: (before, after).
    Around(String, String),
    /// A fixed path.
    Fixed(String),
    /// `=404`
    Status(u16),
    /// `pool:web`, as an index into [`Config::pools`].
    Pool(usize),
}

/// `headers = { set = { "X-Frame-Options" = "DENY" }, remove = ["ETag"] }`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderRules {
    /// Fields to set, as (name, value), valid by RFC 9110 section 5.
    pub set: Vec<(String, String)>,
    /// Names to remove, in lower case. Framing fields cannot be removed.
    pub remove: Vec<String>,
}

/// `[pool.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// The name in the file.
    pub name: String,
    /// `command`, `connect`, `listen`: what answers requests.
    pub source: Source,
    /// `workers`: how many processes. With a number, [`Settings::fixed`].
    pub workers: Settings,
    /// `cwd`: absolute after reading; defaults to the configuration file's directory.
    pub cwd: PathBuf,
    /// `env`: added to the environment, sorted by name.
    pub env: Vec<(String, String)>,
    /// `env_inherit`: what is passed on of the master's environment: names, or beginnings of names and `*`.
    pub env_inherit: Vec<String>,
    /// `user`: overrides the server's.
    pub user: Option<Identity>,
    /// `queue.max`: how many requests may wait for a worker.
    pub queue_max: u32,
    /// `queue.timeout`: how long one may wait.
    pub queue_timeout: Duration,
    /// `request_timeout`: how long a worker, or a server, may be silent at a request.
    pub request_timeout: Duration,
    /// `request_total_timeout`: how long it may take for the whole of one.
    pub request_total_timeout: Option<Duration>,
    /// `connect_timeout`: how long an external server may take to accept a connection.
    pub connect_timeout: Duration,
    /// `response_head_bytes_max`: bytes of the head of a response.
    pub response_head_bytes_max: u32,
    /// `response_fields_max`: its fields.
    pub response_fields_max: u16,
    /// `start_timeout`: how long a worker may take to say HELLO.
    pub start_timeout: Duration,
    /// `exit_grace`: how long a worker that has closed its channel may take to exit.
    pub exit_grace: Duration,
    /// `canary`: when a new release that is tried first is good enough.
    pub canary: canary::Rules,
    /// `health_interval`: how often an idle worker is asked whether it is still there; zero is never.
    pub health_interval: Duration,
    /// `open_files`: descriptors that a worker may have; `None` is what the master was given.
    pub open_files: Option<u64>,
    /// `transport`, with `isolate`: an isolated pool has [`Transport::Relay`].
    pub transport: Transport,
    /// `isolate`: no process of this pool ever gets a client's socket.
    pub isolate: bool,
    /// `strip_prefix`-like: the part of the path that the application is mounted at (`SCRIPT_NAME`); empty for none,
    /// otherwise starts with `/` and does not end with it.
    pub mount: String,
    /// `upgrade`: protocols that clients may switch to.
    pub upgrade: Vec<String>,
    /// `request_headers`
    pub request_headers: RequestHeaders,
    /// `target = "as_sent"`: requests go on with the target that the client has sent, where that means what was judged.
    pub as_sent: bool,
    /// `encoded_slashes`; `None` is as the site has it.
    pub encoded_slashes: Option<EncodedSlashes>,
    /// `early_hints`
    pub early_hints: EarlyHints,
    /// `tls`; there if the servers are `https://…`.
    pub tls: Option<UpstreamTls>,
    /// What only a pool of servers has.
    pub external: External,
    /// `resolve`, `endpoints`: servers that are found while the server runs.
    pub discovery: Discovery,
    /// `sendfile_root`: absolute, at most [`Pool::SENDFILE_ROOT_BYTES_MAX`] bytes of UTF-8 without control characters.
    pub sendfile_root: Option<String>,
    /// `named_files`: what `X-Accel-Redirect` begins with (begins and ends with `/`), and the directory that it stands for.
    pub named_files: Vec<(String, PathBuf)>,
    /// Whether the pool's servers are spoken to by HTTP/2: `connect = "h2://…"`, or `tls.http2`.
    pub http2: bool,
    /// `sticky`
    pub sticky: Option<Sticky>,
    /// `health`
    pub health: Option<Health>,
    /// `balance` and what belongs to it, for external servers.
    pub balancing: Balancing,
}

/// `early_hints`: which clients get informational responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EarlyHints {
    /// Clients of HTTP/2.
    Http2,
    /// Clients of HTTP/1.1, too.
    Always,
    /// None.
    Never,
}

/// `sticky`: what leads a client to one process of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sticky {
    /// A cookie of this name, which Maitred sets.
    Cookie(String),
    /// The client's address.
    Address,
}

impl Pool {
    /// What the head of a response may have.
    pub fn response_bounds(&self) -> ResponseBounds {
        ResponseBounds { head_bytes_max: self.response_head_bytes_max, fields_max: self.response_fields_max }
    }

    /// Bytes of `sendfile_root`: it stands in each request's meta lines, which have 4096 bytes in all.
    pub const SENDFILE_ROOT_BYTES_MAX: usize = 1024;

    /// Bytes of `mount`, which stands there, too.
    pub const MOUNT_BYTES_MAX: usize = 1024;

    /// Whether a pool may have this name: 1 to 64 letters, digits, `-` and `_`, so that it can stand in paths and labels.
    pub fn is_name(text: &str) -> bool {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=64).contains(&text.len()) && text.bytes().all(known)
    }
}

/// What answers the requests of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// `command`: program and arguments, never empty. Processes that Maitred starts, and that get requests over their channels.
    Command(Vec<String>),
    /// `command` with `listen`: processes that Maitred starts, and that accept connections by themselves. Neither is empty. No
    /// route leads here.
    Listen {
        /// Program and arguments.
        command: Vec<String>,
        /// What the inherited sockets are bound to, in this order.
        addresses: Vec<SocketAddr>,
        /// How the processes share them.
        sharing: Sharing,
    },
    /// `connect = "unix:/path"`: an external server that speaks the handoff protocol on this socket.
    Channel(PathBuf),
    /// `connect = "http://…"`: HTTP/1.1 servers; not empty unless others are found ([`Pool::discovery`]).
    Http(Vec<Upstream>),
    /// `connect = "fastcgi://…"`: FastCGI applications.
    FastCgi(FastCgi),
}

impl Source {
    /// The external servers that requests are sent to over connections of their own: of HTTP, or of FastCGI.
    pub fn servers(&self) -> Option<&[Upstream]> {
        match self {
            Source::Http(servers) | Source::FastCgi(FastCgi { servers, .. }) => Some(servers),
            Source::Command(_) | Source::Listen { .. } | Source::Channel(_) => None,
        }
    }

    /// The server at this index.
    pub fn server(&self, at: usize) -> Option<&Upstream> {
        self.servers()?.get(at)
    }

    /// Whether these are FastCGI applications.
    pub fn fastcgi(&self) -> Option<&FastCgi> {
        match self {
            Source::FastCgi(fastcgi) => Some(fastcgi),
            _ => None,
        }
    }
}

/// How the processes of a listen pool share its sockets, and how they begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// `buckets`: sockets of each address.
    pub buckets: Buckets,
    /// `affinity`: whether a bucket's processes are kept on its share of the CPUs.
    pub affinity: bool,
    /// `stop_signal`: what asks a process to end.
    pub stop_signal: StopSignal,
    /// `start_grace`: how long a process is taken to be starting.
    pub start_grace: Duration,
}

/// `stop_signal`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of signals, see signal(7)")]
pub enum StopSignal {
    Term,
    Quit,
    Int,
    Hup,
    Usr1,
    Usr2,
    Winch,
}

/// `transport = "auto" | "direct" | "relay"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Maitred chooses.
    Auto,
    /// The client's own socket, wherever that is possible.
    Direct,
    /// A socket that Maitred reads and sends on.
    Relay,
}

/// `[limits]`: everything that a peer controls. Defaults, reasons and the memory that each bounds stand in
/// `limits.rs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Open client connections of one thread.
    pub connections_per_thread_max: u32,
    /// Open connections of one address; 0 for any number.
    pub connections_per_address_max: u32,
    /// Whose are not counted.
    pub connections_per_address_exempt: Vec<Network>,
    /// TLS handshakes of one address in a second; 0 for any number.
    pub tls_handshakes_per_address_per_second_max: u32,
    /// HTTP/2 streams that one address may reset in a second, likewise.
    pub http2_resets_per_address_per_second_max: u32,
    /// Bytes of a request head, request line included.
    pub head_bytes_max: u32,
    /// Header fields of a request.
    pub header_count_max: u16,
    /// Bytes of the request target.
    pub target_bytes_max: u32,
    /// Bytes of a request body, wherever it is kept.
    pub body_bytes_max: u64,
    /// Largest body that goes to an application in the REQUEST itself; larger ones go as a descriptor.
    pub body_inline_bytes_max: u32,
    /// Largest body that is kept in memory (a memory file, if it is not inline); larger ones go to [`Server::spool`].
    /// Not below `body_inline_bytes_max`.
    pub body_memory_bytes_max: u32,
    /// What all bodies in memory files may take up in one worker process; further ones go to [`Server::spool`].
    pub bodies_memory_bytes_max: u64,
    /// What all bodies in [`Server::spool`] may take up; further ones are refused.
    pub bodies_disk_bytes_max: u64,
    /// What all responses may take up in memory while their clients do not take them.
    pub unsent_memory_bytes_max: u64,
    /// Of these, what those of one HTTP/2 connection may before further streams are refused.
    pub unsent_connection_bytes_max: u64,
    /// What all responses may take up in files without a name that application processes have passed.
    pub unsent_files_bytes_max: u64,
    /// Requests on one connection, after which it is closed.
    pub requests_per_connection_max: u32,
    /// Requests at a time on one HTTP/2 connection.
    pub streams_per_connection_max: u32,
    /// Ranges in one request, after merging; more are answered with the whole file.
    pub ranges_max: u16,
    /// From the first byte of a head to its end, a second longer for each `head_bytes_per_second_min` bytes.
    pub head_timeout: Duration,
    /// The longest that can become.
    pub head_timeout_max: Duration,
    /// Bytes of a head that make its time longer by a second; 0 for none.
    pub head_bytes_per_second_min: u32,
    /// Between two pieces of a request body.
    pub body_timeout: Duration,
    /// The rate at which a body has to come; 0 for any.
    pub body_bytes_per_second_min: u32,
    /// How long it may take before that counts.
    pub body_rate_grace: Duration,
    /// From the first byte of a request to its last.
    pub request_total_timeout: Option<Duration>,
    /// Idle between two requests.
    pub keep_alive_timeout: Duration,
    /// Without any progress while a response is written.
    pub write_timeout: Duration,
    /// The rate at which a client has to take what waits for it; 0 for any.
    pub response_bytes_per_second_min: u32,
    /// Over which time that is taken.
    pub response_rate_window: Duration,
    /// From the first byte of a request to the last of its response.
    pub response_total_timeout: Option<Duration>,
    /// Without a byte in either direction after an upgrade.
    pub tunnel_idle_timeout: Duration,
    /// How long unused relays stay.
    pub relay_idle_timeout: Duration,
    /// After an error or a `close`, how long the peer's remaining bytes are read and dropped.
    pub linger_timeout: Duration,
    /// How long each turn of an event loop may take before its thread counts as overloaded.
    pub loop_delay_max: Duration,
    /// Per thread: bytes of small file bodies and prepared heads in memory.
    pub file_cache_bytes_max: u64,
    /// Per thread: open descriptors that the file cache may hold.
    pub file_cache_files_max: u32,
    /// Largest file that is kept in memory and sent with its head in one write; larger ones leave by `sendfile`.
    pub inline_file_bytes_max: u32,
    /// Per thread: responses that are compressed at a time.
    pub compress_encoders_max: u32,
    /// Largest file that is compressed.
    pub compress_file_bytes_max: u64,
    /// Per thread: bytes of access-log lines that wait for the writer.
    pub log_buffer_bytes_max: u32,
    /// Requests that `delay` holds at a time.
    pub delayed_requests_max: u32,
    /// Bytes a second of what one application process writes that are logged.
    pub output_bytes_per_second_max: u32,
}
