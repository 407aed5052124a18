//! A strict parser of responses: what RFC 9112 does not allow a server to send ends the test.

/// A whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The interim responses before it.
    pub(crate) interim: Vec<u16>,
}

/// How the end of a body is found (9112-6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(usize),
    Chunked,
    Close,
}

impl Response {
    /// The value of a field, by its name in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a field that has to be there.
    #[track_caller]
    pub(crate) fn need(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    /// Whether `Connection` says close.
    pub(crate) fn says_close(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The same without `Date`, to compare with another.
    pub(crate) fn undated(mut self) -> Response {
        self.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
        self
    }

    /// Reads a head, its end included.
    #[track_caller]
    pub(super) fn parse_head(head: &[u8]) -> Response {
        let text = std::str::from_utf8(head).expect("a head is ASCII");
        assert!(text.is_ascii(), "a head is ASCII: {text:?}");
        let text = text.strip_suffix("\r\n\r\n").unwrap();
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap();
        let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("status line {line:?}"));
        let (status, reason) = rest.split_once(' ').unwrap_or_else(|| panic!("no space: {line:?}"));
        assert!(status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit()), "{line:?}");
        let fields: Vec<_> = lines.map(parse_field).collect();
        let status = status.parse().unwrap();
        let response =
            Response { status, reason: reason.to_owned(), fields, body: Vec::new(), interim: Vec::new() };
        assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "a lone CR or LF: {text:?}");
        response.judge();
        response
    }

    /// Rules between fields.
    #[track_caller]
    fn judge(&self) {
        for (at, (name, _)) in self.fields.iter().enumerate() {
            let again = self.fields[..at].iter().any(|(before, _)| before.eq_ignore_ascii_case(name));
            // `Vary` is a list, to which a route may add (9110-5.3).
            let may = ["set-cookie", "vary"].iter().any(|other| name.eq_ignore_ascii_case(other));
            assert!(!again || may, "{name} stands twice: {self:?}");
        }
        let (length, coding) = (self.field("content-length"), self.field("transfer-encoding"));
        assert!(length.is_none() || coding.is_none(), "length and coding: {self:?}");
        if self.status < 200 || self.status == 204 {
            assert!(length.is_none() && coding.is_none(), "framing of what has no body: {self:?}");
        }
        if let Some(length) = length {
            assert!(length.bytes().all(|byte| byte.is_ascii_digit()) && !length.is_empty(), "{self:?}");
        }
        for list in ["connection", "allow", "vary", "accept-ranges"] {
            let Some(value) = self.field(list) else { continue };
            assert!(value.split(", ").all(is_token), "{list}: {value:?}");
        }
        if let Some(options) = self.field("connection") {
            let upgrades = self.status == 426 && self.field("upgrade").is_some();
            let known = |option: &str| {
                ["close", "keep-alive"].iter().any(|known| option.eq_ignore_ascii_case(known))
                    || upgrades && option.eq_ignore_ascii_case("upgrade")
            };
            assert!(
                options.split(", ").all(known),
                "Connection names what is sent to all recipients: {self:?}"
            );
        }
    }

    /// How the body ends, of the response to `method`.
    pub(super) fn framing(&self, method: &str) -> Framing {
        if method == "HEAD" || matches!(self.status, 100..=199 | 204 | 304) {
            return Framing::None;
        }
        match (self.field("transfer-encoding"), self.field("content-length")) {
            (Some("chunked"), _) => Framing::Chunked,
            (Some(other), _) => panic!("coding {other:?}"),
            (None, Some(length)) => Framing::Length(length.parse().unwrap()),
            (None, None) => Framing::Close,
        }
    }
}

#[track_caller]
fn parse_field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon: {line:?}"));
    assert!(is_token(name), "field name {name:?}");
    // One space, though none is needed: what is sent is always the same.
    let value = value.strip_prefix(' ').unwrap_or_else(|| panic!("no space: {line:?}"));
    assert_eq!(value, value.trim(), "white space around a value: {line:?}");
    assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')), "value {line:?}");
    (name.to_owned(), value.to_owned())
}

/// 9110-5.6.2
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
