//! The parameters of a request: the meta-variables of CGI/1.1 (RFC 3875 section 4.1), with those that nginx's `fastcgi_params`
//! adds and PHP applications look for.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use super::encode::Params;
use super::script::Script;

/// What the parameters are made of. Nothing here is judged: that has been done with the head of the request.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// `REQUEST_METHOD`
    pub method: &'a str,
    /// `REQUEST_URI`: path and query, encoded.
    pub target: &'a str,
    /// `QUERY_STRING`: what is behind the `?`, encoded; empty without one. Always sent (4.1.7).
    pub query: &'a str,
    /// `SERVER_PROTOCOL`: `HTTP/1.1`, `HTTP/2.0` …
    pub protocol: &'a str,
    /// `SERVER_SOFTWARE`: name and version of the server, or only the name.
    pub software: &'a str,
    /// `SERVER_NAME`: the host of the request or of the site, without a port; an IPv6 address in brackets (4.1.14).
    pub server_name: &'a str,
    /// `HTTPS` (`on`, or not there) and `REQUEST_SCHEME`.
    pub https: bool,
    /// `REMOTE_ADDR` and `REMOTE_PORT`; `None` for a client on a Unix socket, of which `REMOTE_ADDR` says `unix:`.
    pub client: Option<SocketAddr>,
    /// `SERVER_ADDR` and `SERVER_PORT`; `None` for a Unix socket, and then the port is that of the scheme (4.1.15 requires
    /// one).
    pub server: Option<SocketAddr>,
    /// `DOCUMENT_ROOT` as the application sees it (it may live in a container), without a slash at its end. `None` for an
    /// application without files: then neither `SCRIPT_FILENAME` nor `PATH_TRANSLATED` are sent.
    pub document_root: Option<&'a [u8]>,
    /// Where `document_root` stands among the paths of the server: empty for the root, otherwise `/blog`. `SCRIPT_NAME` and
    /// `DOCUMENT_URI` begin with it.
    pub mount: &'a [u8],
    /// `SCRIPT_NAME`, which is `DOCUMENT_URI` as well, `PATH_INFO`, and with the root `SCRIPT_FILENAME` and `PATH_TRANSLATED`.
    /// For an application without files, `name` is empty, and `path_info` is the path behind `mount`; `DOCUMENT_URI` is both.
    pub script: Script<'a>,
    /// `CONTENT_LENGTH`: bytes of content, if there is content (4.1.2). PHP reads no more than this, and nothing without
    /// it: content of unknown length has to be collected first.
    pub content_length: Option<u64>,
    /// The client has said that length itself, so that it is `HTTP_CONTENT_LENGTH` as well.
    pub length_sent: bool,
    /// `SCRIPT_FILENAME` for an application without `document_root`: the program that a wrapper runs.
    pub program: Option<&'a [u8]>,
    /// Variables of the operator's, none of which [is the server's own](is_own): names and values.
    pub further: &'a [(&'a str, Vec<u8>)],
    /// `AUTH_TYPE` and `REMOTE_USER`, if the server has authenticated the client (4.1.1, 4.1.11). The former is left out if it is
    /// empty: another server has found out the user, and has not said how.
    pub authenticated: Option<(&'a str, &'a str)>,
}

impl Default for Variables<'_> {
    fn default() -> Self {
        Variables {
            method: "GET",
            target: "/",
            query: "",
            protocol: "HTTP/1.1",
            software: "maitred",
            server_name: "",
            https: false,
            client: None,
            server: None,
            document_root: None,
            mount: b"",
            script: Script::default(),
            content_length: None,
            length_sent: false,
            program: None,
            further: &[],
            authenticated: None,
        }
    }
}

/// Puts all variables, those of the `fields` included: names and values of the request's head as the client sent them.
///
/// Fields become `HTTP_*` (4.1.18), once for each name: values of several fields are joined by `, `, those of `Cookie` by `; `
/// (6265-5.4, 9113-8.2.3). Each field is compared with those before it, so the head must be bounded in their number. The
/// `:authority` of HTTP/2 has to be among them as `Host`. Left out are:
///
/// - `Proxy`: as `HTTP_PROXY` it would be taken for the proxy of the application's own requests (httpoxy, CVE-2016-5385);
/// - names with anything but letters, digits and hyphens: `X_User` would collide with `X-User`, and in PHP `X.User` too;
/// - `Content-Type` and `Content-Length` among the `fields`, but for the first `Content-Type`; the length is
///   [`Variables::content_length`];
/// - fields of one hop (9110-7.6.1). The caller leaves out those that `Connection` names.
///
/// The type is `CONTENT_TYPE` and `HTTP_CONTENT_TYPE`, and a length that the client has sent is `CONTENT_LENGTH` and
/// `HTTP_CONTENT_LENGTH`, as nginx sends them: applications look for either.
///
/// No field can set a variable that is not `HTTP_*` or `CONTENT_TYPE`; so no client can say `PHP_VALUE` to PHP.
pub fn put<'f, F>(params: &mut Params<'_>, variables: &Variables<'_>, fields: F)
where
    F: Iterator<Item = (&'f str, &'f [u8])> + Clone,
{
    put_request(params, variables);
    put_script(params, variables);
    put_connection(params, variables);
    for (name, value) in variables.further {
        params.put(name.as_bytes(), value);
    }
    if let Some((_, value)) = fields.clone().find(|field| is(field.0, "content-type")) {
        params.put(b"CONTENT_TYPE", value);
        params.put(b"HTTP_CONTENT_TYPE", value);
    }
    if let Some(bytes) = variables.content_length.filter(|_| variables.length_sent) {
        params.put(b"HTTP_CONTENT_LENGTH", itoa::Buffer::new().format(bytes).as_bytes());
    }
    put_fields(params, fields);
}

/// Whether a variable, by its name in capitals, is one that [`put`] puts, or may put: applications rely on them.
pub fn is_own(name: &str) -> bool {
    const OWN: [&str; 24] = [
        "AUTH_TYPE",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "DOCUMENT_ROOT",
        "DOCUMENT_URI",
        "GATEWAY_INTERFACE",
        "HTTPS",
        "PATH_INFO",
        "PATH_TRANSLATED",
        "QUERY_STRING",
        "REDIRECT_STATUS",
        "REMOTE_ADDR",
        "REMOTE_PORT",
        "REMOTE_USER",
        "REQUEST_METHOD",
        "REQUEST_SCHEME",
        "REQUEST_URI",
        "SCRIPT_FILENAME",
        "SCRIPT_NAME",
        "SERVER_ADDR",
        "SERVER_NAME",
        "SERVER_PORT",
        "SERVER_PROTOCOL",
        "SERVER_SOFTWARE",
    ];
    name.starts_with("HTTP_") || OWN.contains(&name)
}

fn put_request(params: &mut Params<'_>, variables: &Variables<'_>) {
    params.put(b"GATEWAY_INTERFACE", b"CGI/1.1");
    params.put(b"SERVER_SOFTWARE", variables.software.as_bytes());
    params.put(b"SERVER_PROTOCOL", variables.protocol.as_bytes());
    params.put(b"REQUEST_METHOD", variables.method.as_bytes());
    params.put(b"REQUEST_URI", variables.target.as_bytes());
    params.put(b"QUERY_STRING", variables.query.as_bytes());
    // What php-cgi looks for with `cgi.force_redirect`: a server stands before it.
    params.put(b"REDIRECT_STATUS", b"200");
    if let Some(bytes) = variables.content_length {
        params.put(b"CONTENT_LENGTH", itoa::Buffer::new().format(bytes).as_bytes());
    }
    if let Some((kind, user)) = variables.authenticated {
        if !kind.is_empty() {
            params.put(b"AUTH_TYPE", kind.as_bytes());
        }
        params.put(b"REMOTE_USER", user.as_bytes());
    }
}

fn put_script(params: &mut Params<'_>, variables: &Variables<'_>) {
    let Script { name, index, path_info } = variables.script;
    let mount = variables.mount;
    params.put_parts(b"SCRIPT_NAME", &[mount, name, index]);
    // nginx's `$document_uri` is the script wherever `try_files` has looked for that, as in `fastcgi-php.conf` of Debian.
    let document = if name.is_empty() && index.is_empty() { path_info } else { b"" };
    params.put_parts(b"DOCUMENT_URI", &[mount, name, index, document]);
    params.put(b"PATH_INFO", path_info);
    let Some(root) = variables.document_root else {
        if let Some(program) = variables.program {
            params.put(b"SCRIPT_FILENAME", program);
        }
        return;
    };
    params.put(b"DOCUMENT_ROOT", root);
    params.put_parts(b"SCRIPT_FILENAME", &[root, name, index]);
    // 4.1.6: nothing to translate, nothing sent.
    if !path_info.is_empty() {
        params.put_parts(b"PATH_TRANSLATED", &[root, path_info]);
    }
}

fn put_connection(params: &mut Params<'_>, variables: &Variables<'_>) {
    let scheme: &[u8] = if variables.https { b"https" } else { b"http" };
    params.put(b"REQUEST_SCHEME", scheme);
    if variables.https {
        params.put(b"HTTPS", b"on");
    }
    params.put(b"SERVER_NAME", variables.server_name.as_bytes());
    let port = variables.server.map_or(if variables.https { 443 } else { 80 }, |server| server.port());
    params.put(b"SERVER_PORT", itoa::Buffer::new().format(port).as_bytes());
    if let Some(server) = variables.server {
        put_address(params, b"SERVER_ADDR", server.ip());
    }
    match variables.client {
        Some(client) => {
            put_address(params, b"REMOTE_ADDR", client.ip());
            params.put(b"REMOTE_PORT", itoa::Buffer::new().format(client.port()).as_bytes());
        }
        // As nginx says it. Applications expect the variable, and 4.1.8 an address.
        None => params.put(b"REMOTE_ADDR", b"unix:"),
    }
}

/// An address as its text, without brackets; one of IPv4 in IPv6 as IPv4.
fn put_address(params: &mut Params<'_>, name: &[u8], address: IpAddr) {
    // The longest one has 39 bytes; canonical ones have no mapped form.
    let mut text = [0; 48];
    let mut rest = &mut text[..];
    // The buffer has room for any address.
    let _ = write!(rest, "{}", address.to_canonical());
    let free = rest.len();
    params.put(name, text.get(..text.len() - free).unwrap_or_default());
}

fn put_fields<'f, F>(params: &mut Params<'_>, fields: F)
where
    F: Iterator<Item = (&'f str, &'f [u8])> + Clone,
{
    const PREFIX: &[u8] = b"HTTP_";
    for (at, (name, _)) in fields.clone().enumerate() {
        if !is_passed(name) || fields.clone().take(at).any(|field| is(field.0, name)) {
            continue;
        }
        let separator: &[u8] = if is(name, "cookie") { b"; " } else { b", " };
        let values = fields.clone().skip(at).filter(|field| is(field.0, name)).map(|field| field.1);
        let bytes =
            values.clone().fold(0, |bytes, value| bytes + separator.len() + value.len()) - separator.len();
        if !params.begin_pair(PREFIX.len() + name.len(), bytes) {
            continue;
        }
        params.push(PREFIX);
        put_name(params, name);
        for (at, value) in values.enumerate() {
            if at > 0 {
                params.push(separator);
            }
            params.push(value);
        }
    }
}

/// A field name in capitals, and `_` for `-`.
fn put_name(params: &mut Params<'_>, name: &str) {
    for part in name.as_bytes().chunks(64) {
        let mut letters = [0; 64];
        for (letter, byte) in letters.iter_mut().zip(part) {
            *letter = if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
        }
        params.push(letters.get(..part.len()).unwrap_or_default());
    }
}

fn is_passed(name: &str) -> bool {
    const NOT: [&str; 10] = [
        "proxy",
        "content-type",
        "content-length",
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.bytes().all(plain) && !NOT.iter().any(|not| is(name, not))
}

fn is(name: &str, expected: &str) -> bool {
    name.eq_ignore_ascii_case(expected)
}
