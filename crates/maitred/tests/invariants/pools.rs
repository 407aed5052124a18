//! Pools of all kinds, each with the application of `echo.rs`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::echo::{self, Reply, Saw};
use crate::support::framed::{self, Came, Far};
use crate::support::h2::frame;
use crate::support::stage::{Authority, Made};
use crate::support::upstream::{Peer, Upstream};

/// How a pool's application is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Direct,
    Relay,
    Http,
    Https,
    FastCgi,
    Http2,
    /// FastCGI, where one script answers all requests of a route.
    Controller,
}

pub(crate) const KINDS: [Kind; 6] =
    [Kind::Direct, Kind::Relay, Kind::Http, Kind::Https, Kind::FastCgi, Kind::Http2];

/// A file of the pools with scripts: its name is what an application is told.
pub(crate) const SCRIPT: &str = "/index.php";

/// What sites call their pools; each stands for one pool of each kind.
pub(crate) const ROLES: [&str; 2] = ["a", "b"];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Relay => "relay",
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::FastCgi => "fastcgi",
            Kind::Http2 => "h2",
            Kind::Controller => "controller",
        }
    }
}

/// The servers, and the tables that lead to them and to the processes.
pub(crate) struct Pools {
    /// The servers, which end with this.
    _servers: Vec<Upstream>,
    pub(crate) tables: String,
}

impl Pools {
    /// Servers, and the files that the tables name, in this directory.
    pub(crate) fn start(directory: &Path, authority: &Authority) -> Pools {
        std::fs::write(directory.join("echo.py"), include_bytes!("echo.py")).unwrap();
        let made = authority.sign(&["inner.example"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let config = tls(&made);
        let (mut servers, mut tables) = (Vec::new(), String::new());
        for role in ROLES {
            for kind in KINDS.into_iter().chain([Kind::Controller]) {
                let (server, lines) = match kind {
                    Kind::Direct | Kind::Relay => (None, process(role, kind)),
                    Kind::Http => from(Upstream::start(move |peer| http(peer, role)), "http", ""),
                    Kind::Https => {
                        let server = Upstream::secure(config.clone(), move |peer| http(peer, role));
                        let tls = "tls = { server_name = \"inner.example\", ca = \"ca.pem\" }\n";
                        from(server, "https", tls)
                    }
                    Kind::Controller => {
                        let server = Upstream::start(move |peer| fastcgi(peer, role, kind));
                        from(server, "fastcgi", "root = \"scripts\"\nphp = true")
                    }
                    Kind::FastCgi => {
                        from(Upstream::start(move |peer| fastcgi(peer, role, kind)), "fastcgi", "")
                    }
                    Kind::Http2 => from(framed::start(&[], move |far| http2(far, role)), "h2", ""),
                };
                let _ = write!(tables, "[pool.{role}-{}]\n{lines}\n", kind.name());
                servers.extend(server);
            }
        }
        let (guard, lines) = from(Upstream::start(guard), "http", "");
        let _ = write!(tables, "[pool.guard]\n{lines}\n");
        servers.extend(guard);
        Pools { _servers: servers, tables }
    }
}

fn from(server: Upstream, scheme: &str, more: &str) -> (Option<Upstream>, String) {
    // What a machine under load needs is no failure.
    let times = "connect_timeout = \"60s\"\nrequest_timeout = \"60s\"";
    let lines = format!("connect = \"{scheme}://{}\"\n{times}\n{more}", server.address());
    (Some(server), lines)
}

fn process(role: &str, kind: Kind) -> String {
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    format!(
        "command = [\"python3\", \"-m\", \"maitred\", \"echo:application\"]\ntransport = \"{}\"\nworkers = 1\n\
         queue = {{ max = 1024, timeout = \"60s\" }}\nrequest_timeout = \"60s\"\nstart_timeout = \"60s\"\n\
         env = {{ PYTHONPATH = \"{}:.\", PYTHONDONTWRITEBYTECODE = \"1\", POOL = \"{role}\" }}\n",
        kind.name(),
        adapter.display(),
    )
}

fn tls(made: &Made) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let chain = vec![CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

fn asked(peer: &mut Peer) -> io::Result<Saw> {
    let asked = peer.request()?;
    let (method, rest) = asked.line.split_once(' ').unwrap_or_default();
    let target = rest.strip_suffix(" HTTP/1.1").unwrap_or(rest);
    let fields = asked.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    Ok(Saw {
        method: method.to_owned(),
        target: target.to_owned(),
        fields: fields.collect(),
        body: asked.body,
        user: None,
    })
}

/// As HTTP/1 has it.
fn message(reply: &Reply, is_head: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Said\r\n", reply.status);
    for (name, value) in &reply.fields {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if !matches!(reply.status, 204 | 304) {
        let _ = write!(head, "content-length: {}\r\n", reply.body.len());
    }
    head.push_str("\r\n");
    let body: &[u8] = if is_head { &[] } else { &reply.body };
    [head.as_bytes(), body].concat()
}

fn http(peer: &mut Peer, role: &str) -> io::Result<()> {
    loop {
        let saw = asked(peer)?;
        let reply = echo::answer(role, &saw);
        peer.send(message(&reply, saw.method == "HEAD"))?;
    }
}

/// The other server that a gate asks: `session=NAME` is who a client is. What it was shown goes along to the application.
fn guard(peer: &mut Peer) -> io::Result<()> {
    loop {
        let saw = asked(peer)?;
        let field = |name: &str| {
            let found = saw.fields.iter().find(|(found, _)| found == name);
            found.map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
        };
        let cookie = field("cookie");
        let user = cookie.split("; ").find_map(|pair| pair.strip_prefix("session="));
        let mut reply = Reply { status: 401, fields: Vec::new(), body: b"who is it?\n".to_vec() };
        if let Some(user) = user.filter(|user| ["ann", "bob"].contains(user)) {
            let fields = [
                ("x-guard-user", user.to_owned()),
                ("x-guard-uri", field("x-forwarded-uri")),
                ("x-guard-method", field("x-forwarded-method")),
                ("x-guard-host", field("x-forwarded-host")),
                ("x-guard-client", field("x-forwarded-for")),
            ];
            reply = Reply { status: 200, fields: fields.to_vec(), body: Vec::new() };
        }
        peer.send(message(&reply, false))?;
    }
}

fn of_fields(fields: framed::Fields) -> Saw {
    let mut saw = Saw::default();
    for (name, value) in fields {
        match name.as_str() {
            ":method" => saw.method = value,
            ":path" => saw.target = value,
            ":authority" => saw.fields.push(("host".to_owned(), value)),
            ":scheme" => {}
            "cookie" => match saw.fields.iter_mut().find(|(name, _)| name == "cookie") {
                Some((_, before)) => *before = format!("{before}; {value}"),
                None => saw.fields.push((name, value)),
            },
            _ => saw.fields.push((name, value)),
        }
    }
    saw
}

fn http2(far: &mut Far<'_>, role: &str) -> io::Result<()> {
    let mut open: HashMap<u32, Saw> = HashMap::new();
    loop {
        // Requests of several clients come on one connection, their frames between one another.
        let id = match far.next()? {
            Came::Head { id, fields, ended } => {
                if let Entry::Vacant(place) = open.entry(id) {
                    place.insert(of_fields(fields));
                }
                if !ended {
                    continue;
                }
                id
            }
            Came::Data { id, bytes, ended } => {
                if let Some(saw) = open.get_mut(&id) {
                    saw.body.extend(bytes);
                }
                if !ended {
                    continue;
                }
                id
            }
            Came::Reset { id, .. } => {
                open.remove(&id);
                continue;
            }
        };
        let Some(saw) = open.remove(&id) else { continue };
        let reply = echo::answer(role, &saw);
        let (status, length) = (reply.status.to_string(), reply.body.len().to_string());
        let mut fields = vec![(":status", status.as_str())];
        fields.extend(reply.fields.iter().map(|(name, value)| (*name, value.as_str())));
        let is_bare = matches!(reply.status, 204 | 304);
        if !is_bare {
            fields.push(("content-length", &length));
        }
        let ended = is_bare || saw.method == "HEAD" || reply.body.is_empty();
        let mut bytes = framed::head(id, &fields, ended);
        if !ended {
            let pieces: Vec<_> = reply.body.chunks(16_000).collect();
            for (at, piece) in pieces.iter().enumerate() {
                bytes.extend(frame::data(id, piece, at + 1 == pieces.len()));
            }
        }
        far.send(bytes)?;
    }
}

/// One request of a connection, as FastCGI has it: Maitred asks for no more.
fn fastcgi(peer: &mut Peer, role: &str, kind: Kind) -> io::Result<()> {
    let (mut params, mut body) = (Vec::new(), Vec::new());
    let mut over = false;
    while !over {
        let header = peer.take(8)?;
        let content = peer.take(usize::from(header[4]) << 8 | usize::from(header[5]))?;
        peer.take(usize::from(header[6]))?;
        match header[1] {
            4 => params.extend(content),
            5 if content.is_empty() => over = true,
            5 => body.extend(content),
            _ => {}
        }
    }
    let params = pairs(&params);
    let get = |name: &str| params.get(name).cloned().unwrap_or_default();
    let mut saw = Saw { method: get("REQUEST_METHOD"), target: get("REQUEST_URI"), body, ..Saw::default() };
    for (name, value) in &params {
        match name.strip_prefix("HTTP_") {
            Some(name) => saw.fields.push((name.to_lowercase().replace('_', "-"), value.clone())),
            None if name == "CONTENT_TYPE" && !value.is_empty() => {
                saw.fields.push(("content-type".to_owned(), value.clone()));
            }
            None => {}
        }
    }
    // The interface's own way to say who the user is; where a gate has fields of its own for that, these say it.
    let is_told = saw.fields.iter().any(|(name, _)| name.ends_with("user"));
    if let Some(user) = params.get("REMOTE_USER").filter(|user| !user.is_empty() && !is_told) {
        saw.fields.push(("x-remote-user".to_owned(), user.clone()));
    }
    if kind == Kind::Controller {
        assert_eq!(get("SCRIPT_NAME"), SCRIPT, "one script answers everything");
        assert_eq!(get("PATH_INFO"), "", "the script has no path below it");
    }
    saw.user = Some(params.get("REMOTE_USER").cloned().unwrap_or_else(|| "-".to_owned()));
    let reply = echo::answer(role, &saw);
    let mut output = format!("Status: {} Said\r\n", reply.status);
    for (name, value) in &reply.fields {
        let _ = write!(output, "{name}: {value}\r\n");
    }
    if !matches!(reply.status, 204 | 304) {
        let _ = write!(output, "Content-Length: {}\r\n", reply.body.len());
    }
    output.push_str("\r\n");
    let body: &[u8] = if saw.method == "HEAD" { &[] } else { &reply.body };
    let mut bytes = Vec::new();
    for content in [output.as_bytes(), body].concat().chunks(60_000) {
        let [high, low] = (content.len() as u16).to_be_bytes();
        bytes.extend([1, 6, 0, 1, high, low, 0, 0]);
        bytes.extend(content);
    }
    bytes.extend([1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    peer.send(bytes)
}

fn pairs(mut bytes: &[u8]) -> HashMap<String, String> {
    fn number(bytes: &mut &[u8]) -> usize {
        let (value, rest) = match *bytes {
            [long @ 128..=255, a, b, c, rest @ ..] => (u32::from_be_bytes([long & 127, *a, *b, *c]), rest),
            [short, rest @ ..] => (u32::from(*short), rest),
            [] => panic!("no length"),
        };
        *bytes = rest;
        value as usize
    }
    let mut found = HashMap::new();
    while !bytes.is_empty() {
        let (name, value) = (number(&mut bytes), number(&mut bytes));
        let text = |range: &[u8]| String::from_utf8_lossy(range).into_owned();
        found.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        bytes = &bytes[name + value..];
    }
    found
}
