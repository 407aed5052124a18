//! A request that both servers get, as bytes and as a command for curl.

use std::fmt::Write as _;

/// The field by which a request is found again at the applications.
pub const TOKEN: &str = "x-compare";
/// Methods that change nothing (RFC 9110 section 9.2.1), TRACE left out: no server of today answers it.
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
/// Fields that the client writes by itself.
const RESERVED: [&str; 5] = ["host", "connection", "content-length", "transfer-encoding", TOKEN];
/// Bytes of a request without its body: more than servers take, so that what they refuse can be seen.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A request, without what distinguishes the two servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The target, sent as it is spelled here.
    pub target: Vec<u8>,
    /// `Host`; absent: that of the options.
    pub host: Option<String>,
    /// Further fields.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content.
    pub body: Vec<u8>,
    /// The configured port of the server; absent: that of `--left` and `--right`.
    pub port: Option<Port>,
    /// No certificate is shown, even if there is one.
    pub is_anonymous: bool,
}

/// A port as the configuration has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    /// The number.
    pub number: u16,
    /// Whether TLS is spoken at it.
    pub is_tls: bool,
}

/// A request that is made of the response to another one: validators differ between servers, so each side gets its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FollowUp {
    /// The entity tag, in `If-None-Match`.
    Tag,
    /// The date, in `If-Modified-Since`.
    Date,
    /// The entity tag in `If-Range`, with a range.
    Range,
}

/// A request, what comes after it, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Case {
    /// The request.
    pub request: Request,
    /// What follows if both sides have the validator.
    pub follow_ups: Vec<FollowUp>,
    /// Where it comes from, for the report.
    pub about: String,
}

impl Request {
    /// GET of a target.
    pub fn get(target: impl Into<Vec<u8>>) -> Request {
        Request { method: "GET".to_owned(), target: target.into(), ..Request::default() }
    }

    /// The same with another field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Request {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// Whether nothing changes by it.
    pub fn is_safe(&self) -> bool {
        SAFE.contains(&self.method.as_str())
    }

    /// Whether it can be sent as one request and no more.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        if !is_token(&self.method) || self.method == "CONNECT" {
            return Err(format!("{:?} is no method that can be sent", self.method));
        }
        if self.target.is_empty() || self.target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err("a target has no spaces and no control characters".to_owned());
        }
        let is_host = |host: &String| host.bytes().all(|byte| byte > b' ' && byte < 0x7f);
        if !self.host.iter().all(is_host) {
            return Err(format!("{:?} is no host", self.host.as_deref().unwrap_or_default()));
        }
        for (name, value) in &self.fields {
            if !is_token(name) || RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
                return Err(format!("{name:?} is no field that can be given"));
            }
            if value.iter().any(|byte| *byte < b' ' && *byte != b'\t' || *byte == 0x7f) {
                return Err(format!("the value of {name} has a control character"));
            }
        }
        if self.head_bytes() > HEAD_BYTES_MAX {
            return Err(format!("a head has at most {HEAD_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    fn head_bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
        self.target.len() + self.host.as_ref().map_or(0, String::len) + fields
    }

    /// How large it is: the smallest request that shows a difference is the one to look at.
    pub fn size(&self) -> usize {
        let other = usize::from(self.method != "GET") + usize::from(self.port.is_some());
        self.head_bytes() + self.body.len() + other
    }

    /// The bytes in HTTP/1.1; `number` is the token.
    pub fn bytes(&self, host: &str, number: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.head_bytes() + self.body.len());
        for part in [self.method.as_bytes(), b" ", &self.target, b" HTTP/1.1\r\nHost: ", host.as_bytes()] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(format!("\r\n{TOKEN}: {number}\r\n").as_bytes());
        for (name, value) in &self.fields {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        if !self.body.is_empty() || !self.is_safe() {
            out.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
        out
    }

    /// The path, without the query.
    pub fn path(&self) -> &[u8] {
        self.target.split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// One line, safe to print.
    pub fn shown(&self) -> String {
        let mut text = format!("{} {}", self.method, printable(&self.target, 200));
        if let Some(host) = &self.host {
            let _ = write!(text, " (host {host})");
        }
        text
    }
}

/// Where a command line sends a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Curl<'a> {
    pub(super) scheme: &'a str,
    pub(super) authority: &'a str,
    pub(super) host: &'a str,
    /// Further options, such as `--insecure`.
    pub(super) options: &'a [String],
}

impl Curl<'_> {
    /// A command that sends the request to one of the servers.
    pub(super) fn command(&self, request: &Request) -> String {
        let mut out = String::from("curl -si");
        match request.method.as_str() {
            "GET" => {}
            "HEAD" => out.push_str(" --head"),
            method => {
                let _ = write!(out, " -X {}", quoted(method.as_bytes()));
            }
        }
        for option in self.options {
            let _ = write!(out, " {option}");
        }
        let _ = write!(out, " -H {}", quoted(format!("Host: {}", self.host).as_bytes()));
        for (name, value) in &request.fields {
            // A field without a value has a form of its own.
            let separator: &[u8] = if value.is_empty() { b";" } else { b": " };
            let _ = write!(out, " -H {}", quoted(&[name.as_bytes(), separator, value].concat()));
        }
        if !request.body.is_empty() {
            let _ = write!(out, " --data-binary {}", quoted(&request.body));
        }
        let start = format!("{}://{}", self.scheme, self.authority);
        let is_plain = request.target.first() == Some(&b'/')
            && request
                .target
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%?&=+:;,@!$'()*".contains(byte));
        if is_plain {
            let url = [start.as_bytes(), &request.target].concat();
            let _ = write!(out, " --path-as-is -g {}", quoted(&url));
        } else {
            let _ = write!(out, " --request-target {} {}", quoted(&request.target), quoted(start.as_bytes()));
        }
        out
    }
}

/// A word of a shell.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(char::is_control));
    if is_text {
        return format!("'{}'", String::from_utf8_lossy(bytes).replace('\'', r"'\''"));
    }
    let mut out = String::from("$'");
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=b'~' => out.push(char::from(*byte)),
            byte => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('\'');
    out
}

/// Text of a peer's, safe to print, with at most so many characters.
pub(super) fn printable(bytes: &[u8], chars_max: usize) -> String {
    let text = String::from_utf8_lossy(bytes.get(..chars_max * 4).unwrap_or(bytes));
    let mut out: String =
        text.chars().map(|char| if char.is_control() { '·' } else { char }).take(chars_max).collect();
    if text.chars().nth(chars_max).is_some() || bytes.len() > chars_max * 4 {
        out.push('…');
    }
    out
}

/// Whether it is a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curl(request: &Request) -> String {
        let options = ["--insecure".to_owned()];
        let curl = Curl { scheme: "http", authority: "127.0.0.1:8081", host: "a.example", options: &options };
        curl.command(request)
    }

    #[test]
    fn targets_are_sent_as_they_are_spelled() {
        for target in ["//a/./b/..%2fc", "/a%20B?", "*", "http://other.example/a", "/é"] {
            let bytes = Request::get(target).bytes("a.example", 7);
            let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nx-compare: 7\r\n\r\n");
            assert_eq!(String::from_utf8(bytes).unwrap(), head);
        }
    }

    #[test]
    fn content_has_its_length() {
        let post = Request { method: "POST".into(), body: b"a=b".to_vec(), ..Request::get("/") };
        assert!(post.bytes("a", 1).ends_with(b"Content-Length: 3\r\n\r\na=b"));
        let delete = Request { method: "DELETE".into(), ..Request::get("/") };
        assert!(delete.bytes("a", 1).ends_with(b"Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn commands_can_be_pasted() {
        let plain = Request::get("//a?b=c").with("accept-encoding", "gzip");
        assert_eq!(
            curl(&plain),
            "curl -si --insecure -H 'Host: a.example' -H 'accept-encoding: gzip' --path-as-is -g \
             'http://127.0.0.1:8081//a?b=c'"
        );
        let odd = Request { method: "POST".into(), body: b"it's\x00".to_vec(), ..Request::get("/#a") };
        assert_eq!(
            curl(&odd),
            "curl -si -X 'POST' --insecure -H 'Host: a.example' --data-binary $'it\\'s\\x00' --request-target '/#a' \
             'http://127.0.0.1:8081'"
        );
        assert!(curl(&Request { method: "HEAD".into(), ..Request::get("/") }).contains(" --head "));
        assert!(curl(&Request::get("/").with("a", "it's; rm")).contains(r#"'a: it'\''s; rm'"#));
    }

    #[test]
    fn what_would_be_more_than_one_request_is_refused() {
        let ok = Request::get("/").with("a", "b");
        assert_eq!(ok.check(), Ok(()));
        for wrong in [
            Request::get(""),
            Request::get("/a b"),
            Request::get("/\r\nX: y"),
            Request { method: "G T".into(), ..ok.clone() },
            Request { method: "CONNECT".into(), ..ok.clone() },
            Request { host: Some("a\r\nb: c".into()), ..ok.clone() },
            ok.clone().with("b c", "d"),
            ok.clone().with("b", "c\r\nd: e"),
            ok.clone().with("Transfer-Encoding", "chunked"),
            ok.clone().with("X-Compare", "5"),
            Request::get(vec![b'a'; HEAD_BYTES_MAX + 1]),
        ] {
            assert!(wrong.check().is_err(), "{}", wrong.shown());
        }
    }

    proptest! {
        /// What was checked is one request, whatever it holds.
        #[test]
        fn a_checked_request_is_one(target: Vec<u8>, value: Vec<u8>, host: String, name: String) {
            let request = Request { host: Some(host.clone()), ..Request::get(target) }.with(&name, value);
            if request.check().is_ok() {
                let bytes = request.bytes(&host, 1);
                prop_assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 5);
                prop_assert_eq!(bytes.iter().filter(|byte| **byte == b'\r').count(), 5);
            }
        }
    }
}
