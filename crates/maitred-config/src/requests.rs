//! Keys of a pool about its requests: how long they may take, what it gets of them, and what it may answer.

use std::time::Duration;

use maitred_http::limits::{self, RESPONSE_FIELDS_MOST, RESPONSE_HEAD_BYTES_MOST};

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

const TIME_MIN: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `request_headers` and `trusted_fields`: what is passed on of what is removed otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeaders {
    /// `keep`: names in small letters.
    pub keep: Vec<String>,
    /// `underscores`
    pub underscores: bool,
    /// `trusted_fields`: names in small letters, or their beginnings with `*` behind them. Passed on if a trusted proxy has sent
    /// them, and from no other peer.
    pub trusted: Option<Vec<String>>,
    /// `client_address_from` of `[server]`, in small letters: passed on likewise.
    pub client_address: Option<String>,
}

/// `request_timeout`
pub(super) const REQUEST_TIMEOUT: Key = Key::new(
    "request_timeout",
    Kind::Time { min: TIME_MIN, max: DAY },
    Default::Time(Duration::from_secs(60)),
    "How long a process, or an external server, may send nothing of the response to a request, while the client reads what there \
     is. Then the request is cancelled: the client gets 504, or its response is aborted if a part was sent. A process that \
     takes one request at a time is killed and replaced; `docs/pools.md` says when another one is.",
);

/// `response_head_bytes_max`
pub(super) const RESPONSE_HEAD_BYTES_MAX: Key = Key {
    reason: "Applications put tokens of any size into cookies. Memory: one head for each response that begins.",
    ..Key::new(
        "response_head_bytes_max",
        Kind::Size { min: 1024, max: RESPONSE_HEAD_BYTES_MOST as u64 },
        Default::Size(limits::RESPONSE_HEAD_BYTES_MAX as u64),
        "Bytes of the head of a response, over HTTP/2 as its header list is counted. The client gets 502 instead of a longer one. \
         What a process writes to the client's own socket is not looked at.",
    )
};

/// `response_fields_max`
pub(super) const RESPONSE_FIELDS_MAX: Key = Key {
    reason: "Some applications set a cookie for each of a hundred things, or write a policy as a field for each of its rules. \
             Memory: 32 bytes for each while a head is parsed.",
    ..Key::new(
        "response_fields_max",
        Kind::Whole { min: 16, max: RESPONSE_FIELDS_MOST as u64 },
        Default::Whole(limits::RESPONSE_FIELDS_MAX as u64),
        "Fields of the head of a response. The client gets 502 instead of one with more.",
    )
};

/// `request_total_timeout`
pub(super) const REQUEST_TOTAL_TIMEOUT: Key = Key::new(
    "request_total_timeout",
    Kind::Time { min: TIME_MIN, max: DAY },
    Default::Absent("no bound"),
    "How long a process, or an external server, may take for a whole request and its response. Then the request is cancelled as \
     by `request_timeout`. This includes event streams and long downloads, but not upgraded connections (WebSocket).",
);

/// `early_hints`
pub(super) const EARLY_HINTS: Key = Key::new(
    "early_hints",
    Kind::Choice(&["http2", "always", "never"]),
    Default::Text("http2"),
    "Which clients get the informational responses (103 Early Hints, RFC 8297) that the application, or the HTTP server, \
     sends before its response. `\"http2\"`: clients that use HTTP/2. `\"always\"`: those of HTTP/1.1, too, some of which \
     take an informational response for the final one.",
);

/// `sendfile_root`
pub(super) const SENDFILE_ROOT: Key = Key::new(
    "sendfile_root",
    Kind::Text("a directory, as an absolute path"),
    Default::Absent("`X-Sendfile` has no effect"),
    "The directory whose files the application may send by the response field `X-Sendfile: /path`. The adapter sends only \
     files below this directory; symbolic links in both paths are resolved first.",
);

/// `named_files`
pub(super) const NAMED_FILES: Key = Key::new(
    "named_files",
    Kind::Map("`\"/prefix/\"` = directory"),
    Default::Absent("`X-Accel-Redirect` is a field as any other"),
    "Directories of files that responses of the pool can name: `X-Accel-Redirect: /prefix/name`, or `X-Sendfile` with the path of a \
     file below such a directory. The client gets the file instead of the content, with ranges and conditions, and with the \
     type, disposition, caching and cookies of the response. Responses then come through a relay, and what else they say in \
     `X-Accel-…` does not reach clients. See \
     [files for which the application has decided](proxies.md#files-that-an-application-names).",
);

/// `upgrade`
pub(super) const UPGRADE: Key = Key::new(
    "upgrade",
    Kind::Texts("names of protocols, as in the field `Upgrade`"),
    Default::Texts(&["websocket"]),
    "Other protocols that a client may switch to (`Upgrade`; over HTTP/2 extended CONNECT). Maitred forwards the bytes of \
     that protocol without reading them; so `h2c`, `HTTP/…` and `TLS/…`, which would hide requests, are refused.",
);

/// `request_headers`
pub(super) const REQUEST_HEADERS_KEY: Key = Key::new(
    "request_headers",
    Kind::Section(&REQUEST_HEADERS),
    Default::Absent("all defaults"),
    "Request fields that are passed to the pool although they are removed by default.",
);

/// `request_headers`
pub(super) const REQUEST_HEADERS: Table = Table {
    title: "request_headers",
    doc: "Fields of requests on their way to a pool. Those in which proxies say who the client is (`X-Remote-User`, \
          `True-Client-IP`, `SSL-Client-Cert`; `docs/proxies.md` has the list) are removed, unless a peer in `trusted_proxies` \
          sends them and `trusted_fields` has them; and so are names with `_` or `.`, which CGI-like variables (`HTTP_X_Y`) \
          confuse with other fields.",
    example: "[pool.web]\ncommand = [\"./app\"]\nrequest_headers = { keep = [\"x-remote-user\", \"api_key\"] }\n",
    keys: &[
        Key::new(
            "keep",
            Kind::Texts("field names"),
            Default::Texts(&[]),
            "Fields that are passed on from any client, even if an application may take them for a proxy's.",
        ),
        Key::new(
            "underscores",
            Kind::Flag,
            Default::Flag(false),
            "Pass on names with `_` and `.`, except other spellings of fields that proxies set.",
        ),
    ],
};

/// `trusted_fields`
pub(super) const TRUSTED_FIELDS: Key = Key::new(
    "trusted_fields",
    Kind::Texts(
        "names of fields, such as `\"X-Remote-User\"`, or their beginnings with `*`, such as `\"X-Auth-Request-*\"`",
    ),
    Default::Absent("what is usual"),
    "Fields in which proxies in `trusted_proxies` tell the application who the client is, and which are passed on from these. From \
     any other peer, applications get neither these nor any of the [fields of proxies, gateways and login \
     services](proxies.md#fields-that-only-a-proxy-may-send) that are known; from trusted proxies, they get of those only what \
     stands here, or, where the key is not given, those that are named there as usual.",
);

/// `encoded_slashes`
pub(super) const ENCODED_SLASHES: Key = Key::new(
    "encoded_slashes",
    SLASHES,
    Default::Text("decode"),
    "The meaning of `%2F` in a path. `\"decode\"`: a slash like any other. `\"keep\"`: a slash for routes and files, but \
     applications get it encoded, as a part of a segment; a path with it and with `.` or `..` gets 400. `\"reject\"`: 400, \
     as does `%5C`.",
);

const SLASHES: Kind = Kind::Choice(&["decode", "keep", "reject"]);

/// `encoded_slashes` of a site
pub(super) const ENCODED_SLASHES_OF_SITE: Key = Key::new(
    "encoded_slashes",
    SLASHES,
    Default::Absent("what `[server]` says"),
    "The meaning of `%2F` in the paths of this site, as in `[server]`.",
);

/// `encoded_slashes` of a pool
pub(super) const ENCODED_SLASHES_OF_POOL: Key = Key::new(
    "encoded_slashes",
    SLASHES,
    Default::Absent("what the site says"),
    "How this application gets `%2F` in a path: as a slash (`\"decode\"`), or as it is (`\"keep\"`), or not at all \
     (`\"reject\"`, 400). Routes and files still see a slash.",
);

/// `target`
pub(super) const TARGET: Key = Key::new(
    "target",
    Kind::Choice(&["canonical", "as_sent"]),
    Default::Text("canonical"),
    "The form of the target that this application gets. `\"canonical\"`: the one form that routes and gates have judged: slashes \
     merged, dot segments removed, `%7E` decoded. `\"as_sent\"`: what the client has sent, for applications that sign it, or have \
     keys with `//` or `%2F`; routes and gates still judge the canonical form. Where a route rewrites the target, the rewritten \
     one goes on. For FastCGI that is `REQUEST_URI`.",
);

/// `client_address_from`
pub(super) const CLIENT_ADDRESS_FROM: Key = Key::new(
    "client_address_from",
    Kind::Text("the name of a field, such as `\"CF-Connecting-IP\"`"),
    Default::Absent("`X-Forwarded-For`, or `Forwarded` in requests without it"),
    "With `trusted_proxies`: the field that has the client's address, or a list of addresses of which the last one counts that is \
     not a trusted proxy. Only this field is believed then. From other peers applications do not get it.",
);

/// `path_parameters`
pub(super) const PATH_PARAMETERS: Key = Key::new(
    "path_parameters",
    Kind::Choice(&["keep", "reject"]),
    Default::Text("keep"),
    "The meaning of `;` in a path. Servlet containers read `/admin;x/y` as `/admin/y`, which is another path for routes: \
     where routes protect paths of such a container, set `\"reject\"`, which answers 400.",
);

/// `sticky`
pub(super) const STICKY_KEY: Key = Key::new(
    "sticky",
    Kind::ChoiceOrSection { words: &["cookie", "address"], table: &STICKY },
    Default::Absent("any process gets any request"),
    "Send all requests of a client to the same process, or to the same server of `connect`, for applications that keep state in memory (`docs/applications.md` \
     names some). `\"cookie\"`: the response to a client's first request sets a cookie that names the process. \
     `\"address\"`: the client's address decides (`/64` for IPv6), for clients without cookies; all clients behind one NAT \
     then share one process. For servers there is \
     `balance = \"hash\"` in its place. See [balancing](balancing.md#sessions).",
);

/// `sticky`
pub(super) const STICKY: Table = Table {
    title: "sticky",
    doc: "Session affinity by a cookie. When the process of a client has ended, another process is chosen by weighted \
          rendezvous hashing, and the cookie is set again; when its server is out, another one by `balance`.",
    example: "[pool.chat]\ncommand = [\"./app\"]\nworkers = 4\nsticky = { cookie = \"chat-process\" }\n",
    keys: &[
        Key::new(
            "cookie",
            Kind::Text("the name of a cookie"),
            Default::Required,
            "The cookie's name; with `sticky = \"cookie\"` it is `maitred-` and the pool's name.",
        ),
        Key::new(
            "secret",
            Kind::Text("16 bytes and more"),
            Default::Absent("the machine's own, of /etc/machine-id"),
            "For servers: what their addresses are hashed with, so that the cookie does not show them. Machines with the same secret \
             lead a client to the same server. Another secret lets all clients be spread anew.",
        ),
    ],
};

/// `mount`
pub(super) const MOUNT: Key = Key::new(
    "mount",
    Kind::Text("a path that does not end with `/`"),
    Default::Text(""),
    "The part of the path that the application is mounted at (`SCRIPT_NAME`), of at most 1024 bytes.",
);
