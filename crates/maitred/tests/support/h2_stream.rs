//! One stream as its client sees it, with the rules for responses in RFC 9113, section 8.

/// What came on a stream.
pub(crate) struct Stream {
    pub(crate) method: String,
    /// Interim responses.
    interim: Vec<Response>,
    /// The final response, without its content.
    pub(crate) head: Option<Response>,
    pub(crate) body: Vec<u8>,
    /// DATA frames that had content.
    pub(crate) frames: usize,
    trailers: Vec<(String, String)>,
    pub(crate) ended: bool,
    /// The code of RST_STREAM.
    pub(crate) reset: Option<u32>,
    /// Whether this side has reset the stream: all that comes is right.
    pub(crate) cancelled: bool,
    /// What the server may still send.
    pub(crate) window: i64,
    /// What this side may still send.
    pub(crate) send_window: i64,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// The statuses of interim responses before it.
    pub(crate) interim: Vec<u16>,
    /// The code of an RST_STREAM that came after its end.
    pub(crate) reset: Option<u32>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stream { head, body, ended, reset, window, send_window, .. } = self;
        write!(f, "{head:?}, {} bytes, ended: {ended}, reset: {reset:?}, ", body.len())?;
        write!(f, "windows: {window} to come, {send_window} to go")
    }
}

/// Fields that HTTP/2 does not have (9113-8.2.2).
const OF_CONNECTIONS: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"];

impl Stream {
    pub(super) fn new(window: i64, send_window: i64) -> Stream {
        Stream {
            method: "GET".to_owned(),
            interim: Vec::new(),
            head: None,
            body: Vec::new(),
            frames: 0,
            trailers: Vec::new(),
            ended: false,
            reset: None,
            cancelled: false,
            window,
            send_window,
        }
    }

    #[track_caller]
    pub(super) fn on_fields(&mut self, fields: Vec<(String, String)>, ended: bool) {
        if self.cancelled {
            return;
        }
        assert!(!self.ended && self.reset.is_none(), "HEADERS on a closed stream: {fields:?}");
        if self.head.is_some() {
            assert!(ended, "trailers end the stream (9113-8.1)");
            assert!(fields.iter().all(|(name, _)| !name.starts_with(':')), "{fields:?}");
            self.trailers = fields;
            return self.end();
        }
        let response = Response::judged(fields);
        if response.status < 200 {
            assert!(!ended, "an interim response ends the stream");
            self.interim.push(response);
        } else {
            self.head = Some(response);
        }
        if ended {
            self.end();
        }
    }

    #[track_caller]
    pub(super) fn on_data(&mut self, bytes: &[u8], ended: bool) {
        self.window -= bytes.len() as i64;
        if self.cancelled {
            return;
        }
        assert!(self.window >= 0, "more than the stream's window");
        assert!(!self.ended && self.reset.is_none(), "DATA on a closed stream");
        assert!(self.head.is_some(), "DATA before HEADERS");
        self.body.extend_from_slice(bytes);
        self.frames += usize::from(!bytes.is_empty());
        if ended {
            self.end();
        }
    }

    /// Statuses of the interim responses that came.
    pub(crate) fn interim(&self) -> Vec<u16> {
        self.interim.iter().map(|response| response.status).collect()
    }

    pub(super) fn on_reset(&mut self, code: u32) {
        assert!(self.reset.is_none() || self.cancelled, "RST_STREAM twice");
        self.reset = Some(code);
    }

    #[track_caller]
    fn end(&mut self) {
        self.ended = true;
        let head = self.head.as_ref().expect("a final response before the end");
        let length = head.field("content-length").map(|length| length.parse::<usize>().expect("a length"));
        if self.method == "HEAD" || matches!(head.status, 204 | 304) {
            assert!(self.body.is_empty(), "content where there is none: {head:?}");
        } else if let Some(length) = length.filter(|_| self.method != "CONNECT") {
            assert_eq!(length, self.body.len(), "content-length is what came (9113-8.1.1)");
        }
    }

    pub(super) fn into_response(self) -> Response {
        let interim = self.interim();
        let mut response = self.head.expect("an ended stream has a response");
        response.body = self.body;
        response.trailers = self.trailers;
        response.reset = self.reset;
        response.interim = interim;
        response
    }
}

impl Response {
    /// A response whose fields are as RFC 9113, section 8.2 and 8.3.2 say.
    #[track_caller]
    fn judged(mut fields: Vec<(String, String)>) -> Response {
        assert!(!fields.is_empty(), "a response without :status");
        let (name, status) = fields.remove(0);
        assert!(name == ":status" && status.len() == 3, "{name}: {status}");
        for (name, value) in &fields {
            let token = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
            assert!(!name.is_empty() && name.bytes().all(token), "field name {name:?}");
            assert!(!OF_CONNECTIONS.contains(&name.as_str()), "{name} has no place in HTTP/2");
            assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{name}: {value:?}");
            assert_eq!(value, value.trim(), "white space around a value: {name}: {value:?}");
        }
        for (at, (name, _)) in fields.iter().enumerate() {
            let again = fields[..at].iter().any(|(before, _)| before == name);
            assert!(
                !again || ["set-cookie", "vary"].contains(&name.as_str()) || name.starts_with("x-"),
                "{name} stands twice: {fields:?}"
            );
        }
        let status = status.parse().expect("a status");
        Response { status, fields, body: Vec::new(), trailers: Vec::new(), interim: Vec::new(), reset: None }
    }

    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field that has to be there.
    #[track_caller]
    pub(crate) fn need(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }
}
