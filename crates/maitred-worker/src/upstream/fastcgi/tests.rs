use std::collections::HashMap;

use maitred_http::fastcgi::record::{HEADER_BYTES, RecordHeader, kind};
use maitred_http::fastcgi::script;
use maitred_http::fields::{FieldEdits, FieldsRef};
use maitred_http::h1;
use maitred_http::request::{self, HeadLimits};

use super::*;
use crate::connection::remote::Remote;
use crate::origin::PutField as _;
use crate::testing::filter;
use maitred_base::clock::Clock;

const DATE: [u8; 29] = *b"Sun, 06 Nov 1994 08:49:37 GMT";
const END: &[u8] = &[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const HEAD: &str = "Content-Type: text/plain\r\n\r\n";

fn record(kind: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 3, 0], content, b"pad"].concat()
}

fn stdout(content: impl AsRef<[u8]>) -> Vec<u8> {
    record(kind::STDOUT, content)
}

fn ended(status: u8) -> Vec<u8> {
    record(kind::END_REQUEST, [0, 0, 0, 0, status, 0, 0, 0])
}

/// What a client, and the log, got.
struct Got {
    reply: Reply,
    filter: Filter,
    out: Vec<u8>,
    log: Vec<String>,
}

impl Got {
    fn new() -> Got {
        Got { reply: Reply::default(), filter: filter(), out: Vec::new(), log: Vec::new() }
    }

    fn feed(&mut self, input: &[u8]) -> Result<(), Failed> {
        let (edits, further) = (FieldEdits::NONE, FieldsRef::default());
        let mut encoder = h1::Encoder { out: &mut self.out, date: &DATE, edits, further };
        let log = &mut self.log;
        let mut note = |line: &[u8]| log.push(String::from_utf8_lossy(line).into_owned());
        self.reply.feed(input, &mut self.filter, &mut encoder, &mut note)
    }

    fn end(&mut self) -> Result<(), Failed> {
        let log = &mut self.log;
        self.reply.end(&mut |line| log.push(String::from_utf8_lossy(line).into_owned()))
    }

    fn content(&self) -> String {
        let text = String::from_utf8_lossy(&self.out);
        text.split_once("\r\n\r\n").map(|(_, content)| content.to_owned()).unwrap_or_default()
    }
}

fn fed(input: &[u8]) -> (Got, Result<(), Failed>) {
    let mut got = Got::new();
    let result = got.feed(input);
    (got, result)
}

#[test]
fn a_response_is_complete_with_the_end_of_its_request() {
    let response = [&stdout(HEAD)[..], &stdout("hel"), &stdout("lo"), END].concat();
    let (whole, result) = fed(&response);
    assert_eq!(result, Ok(()));
    assert_eq!(whole.content(), "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n");
    assert!(whole.reply.is_complete() && whole.filter.keeps());

    // In whatever pieces it arrives; and the client gets the content as soon as it has arrived.
    let mut parts = Got::new();
    for (at, byte) in response.iter().enumerate() {
        assert!(!parts.reply.is_complete());
        assert!(parts.end().is_err(), "not before byte {at}");
        parts.feed(&[*byte]).unwrap();
    }
    assert!(parts.reply.is_complete());
    assert_eq!(parts.content().replace("1\r\n", "").replace("\r\n", ""), "hello0");
    assert_eq!(parts.end(), Ok(()));
}

#[test]
fn an_empty_record_of_output_completes_it_as_well() {
    let (mut got, result) = fed(&[stdout(HEAD), stdout("hello"), stdout("")].concat());
    assert_eq!(result, Ok(()));
    assert_eq!(got.content(), "5\r\nhello\r\n0\r\n\r\n");
    assert!(got.reply.is_complete());
    assert_eq!(got.end(), Ok(()));
}

#[test]
fn what_follows_the_end_is_nobodys_fault() {
    let (mut got, _) = fed(&[&stdout(HEAD)[..], END, b"rubbish"].concat());
    let before = got.out.clone();
    assert_eq!(got.feed(b"and more"), Ok(()));
    // `end` is also called for an error of the socket.
    assert_eq!((got.end(), got.out == before), (Ok(()), true));
}

#[test]
fn a_response_that_is_not_whole_fails() {
    for (input, why) in [
        (vec![], "the application closed the FastCGI connection before the end of the request"),
        (stdout("Content-Ty"), "the application closed the FastCGI connection before the end of the request"),
        (
            [stdout(HEAD), stdout("hel")].concat(),
            "the application closed the FastCGI connection before the end of the request",
        ),
    ] {
        let (mut got, result) = fed(&input);
        assert_eq!((result, got.end()), (Ok(()), Err(Failed::Bad(why.into()))));
        assert!(!got.reply.is_complete() && !got.filter.complete());
    }
    for (input, why) in [
        (END.to_vec(), "no response"),
        ([&stdout("Content-Ty")[..], END].concat(), "response ends inside its head"),
        ([&stdout("Content-Length: 5\n\nhell")[..], END].concat(), "response ends inside its body"),
        (stdout("Status: 42\n\n"), "response head: Status is not a number of three digits"),
        (
            b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
            "what listens there does not speak FastCGI, but seems to be an HTTP server: \
                                                     correct `connect`",
        ),
    ] {
        let (got, result) = fed(&input);
        assert_eq!(result, Err(Failed::Bad(why.into())));
        assert_eq!(result.unwrap_err().cause(), Cause::Bad);
        assert!(!got.reply.is_complete());
    }
}

#[test]
fn a_request_that_was_refused_may_go_elsewhere() {
    let (_, result) = fed(&ended(2));
    assert_eq!(result, Err(Failed::Overloaded));
    assert_eq!(Failed::Overloaded.cause(), Cause::Overloaded);
    for (status, why) in
        [(1, "another one runs"), (3, "no FastCGI responder"), (9, "unknown protocol status 9")]
    {
        let (_, result) = fed(&ended(status));
        assert!(matches!(&result, Err(Failed::Bad(said)) if said.contains(why)), "{result:?}");
    }
}

#[test]
fn a_local_redirect_goes_to_the_client() {
    let (got, _) = fed(&[&stdout("Location: /login?next=%2F\r\n\r\n")[..], END].concat());
    let text = String::from_utf8_lossy(&got.out);
    assert!(text.starts_with("HTTP/1.1 302 Found\r\nLocation: /login?next=%2F\r\n"), "{text}");
}

#[test]
fn messages_become_lines() {
    let stderr = |text: &str| record(kind::STDERR, text);
    let input = [
        stderr("PHP message: one; "),
        stderr("two\n\nthree\r\n"),
        stdout(HEAD),
        stderr("four"),
        END.to_vec(),
    ];
    let (got, _) = fed(&input.concat());
    assert_eq!(got.log, ["PHP message: one; two", "three", "four"]);
    // The same if the application exits.
    let (mut got, _) = fed(&stderr("last words"));
    assert_eq!((got.log.len(), got.end().is_err()), (0, true));
    assert_eq!(got.log, ["last words"]);
}

#[test]
fn messages_of_a_request_are_bounded() {
    let piece = record(kind::STDERR, [b'x'; 40_000]);
    let (mut got, _) = fed(&stdout(HEAD));
    for _ in 0..5 {
        got.feed(&piece).unwrap();
    }
    assert!(got.reply.messages.line.len() < LINE_BYTES_MAX);
    got.feed(END).unwrap();
    let last = got.log.pop().unwrap();
    assert_eq!(last, format!("{} more bytes of messages", 5 * 40_000 - MESSAGE_BYTES_MAX));
    assert!(got.log.iter().all(|line| line.len() <= LINE_BYTES_MAX));
    assert_eq!(got.log.iter().map(String::len).sum::<usize>(), MESSAGE_BYTES_MAX);
}

#[test]
fn hosts_are_named_without_their_ports() {
    for (authority, expected) in [
        ("a.example", "a.example"),
        ("a.example:8080", "a.example"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
        ("a.example:", "a.example"),
        ("", "localhost"),
    ] {
        assert_eq!(host(authority), expected);
    }
}

/// The records of a request, type and content, as an application receives them.
fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let header = RecordHeader::parse(header);
        let (content, rest) = rest.split_at(usize::from(header.content_bytes));
        found.push((header.kind, content.to_vec()));
        bytes = &rest[usize::from(header.padding_bytes)..];
    }
    found
}

fn params(mut bytes: &[u8]) -> HashMap<String, String> {
    fn length(bytes: &mut &[u8]) -> usize {
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
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let (pair, rest) = bytes.split_at(name + value);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(found.insert(text(&pair[..name]), text(&pair[name..])), None, "once each");
        bytes = rest;
    }
    found
}

/// A request to a pool that is mounted at `mount`.
struct Case<'a> {
    head: &'a str,
    path: &'a str,
    mount: &'a str,
    root: Option<&'a str>,
    inline: Option<&'a [u8]>,
}

fn written(case: &Case<'_>, fields: &FieldLines) -> Result<Vec<u8>, PairTooBig> {
    let limits = HeadLimits {
        head_bytes_max: 1 << 20,
        header_count_max: 64,
        target_bytes_max: 1 << 20,
        body_bytes_max: 100,
    };
    let mut room = request::field_room();
    let (request, _) = request::parse(case.head.as_bytes(), &mut room, &limits).unwrap().unwrap();
    let clock =
        Clock { now: std::time::Instant::now(), unix_secs: 0, unix_micros: 0, steady_us: 0, http_date: DATE };
    let context =
        RequestContext { request: &request, path: case.path.as_bytes(), clock: &clock, warmed: false };
    let settings = FastCgi {
        servers: Vec::new(),
        root: case.root.map(Into::into),
        script_root: case.root.map(Into::into),
        index: "index.php".into(),
        php: false,
        script_filename: None,
        params: Vec::new(),
        uri_as_sent: false,
    };
    let below = case.path.strip_prefix(case.mount).unwrap().as_bytes();
    let script =
        case.root.map(|_| script::split(below, Some(b"index.php"), script::ENDING).unwrap().unwrap());
    let remote = Remote::new(Some("192.0.2.7:5000".parse().unwrap()));
    let client = Client { remote, https: true, proxied: false, named_by: crate::origin::NamedBy::Either };
    let asked = Asked {
        context: &context,
        target: request.target,
        uri: request.target,
        host: request.authority,
        settings: &settings,
        mount: case.mount,
        script: script.as_ref(),
        client: &client,
        local: "[::1]:8443".parse().ok(),
        fields,
        params: &[("APP_MODE", b"a b".to_vec())],
        user: None,
        content_length: case.inline.map(|content| content.len() as u64),
        length_sent: case.inline.is_some(),
    };
    let mut out = b"before".to_vec();
    let result = write_request(&mut out, &asked, case.inline);
    assert!(out.starts_with(b"before"));
    result.map(|()| out[6..].to_vec()).inspect_err(|_| assert_eq!(out, b"before"))
}

#[test]
fn a_request_is_written_as_records() {
    let case = Case {
        head: "POST /blog/dir/a.php/x%20y?q=1 HTTP/1.1\r\nHost: a.example:8443\r\nContent-Length: 5\r\n\r\n",
        path: "/blog/dir/a.php/x y",
        mount: "/blog",
        root: Some("/srv/www"),
        inline: Some(b"hello"),
    };
    let mut fields = FieldLines::default();
    fields.field("host", b"a.example:8443");
    fields.field("content-type", b"text/plain");
    fields.field("x-forwarded-for", b"192.0.2.7");
    fields.field("proxy", b"http://evil.example");
    let records = records(&written(&case, &fields).unwrap());
    let kinds: Vec<u8> = records.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [kind::BEGIN_REQUEST, kind::PARAMS, kind::PARAMS, kind::STDIN, kind::STDIN]);
    assert_eq!(records[0].1, [0, 1, 0, 0, 0, 0, 0, 0], "a responder, whose connection ends with the request");
    assert_eq!(
        (&records[2].1[..], &records[3].1[..], &records[4].1[..]),
        (&b""[..], &b"hello"[..], &b""[..])
    );
    let params = params(&records[1].1);
    for (name, value) in [
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/blog/dir/a.php/x%20y?q=1"),
        ("QUERY_STRING", "q=1"),
        ("APP_MODE", "a b"),
        ("SCRIPT_NAME", "/blog/dir/a.php"),
        ("PATH_INFO", "/x y"),
        ("SCRIPT_FILENAME", "/srv/www/dir/a.php"),
        ("DOCUMENT_ROOT", "/srv/www"),
        ("CONTENT_LENGTH", "5"),
        ("HTTP_CONTENT_LENGTH", "5"),
        ("CONTENT_TYPE", "text/plain"),
        ("HTTP_CONTENT_TYPE", "text/plain"),
        ("HTTPS", "on"),
        ("SERVER_NAME", "a.example"),
        ("SERVER_ADDR", "::1"),
        ("SERVER_PORT", "8443"),
        ("REMOTE_ADDR", "192.0.2.7"),
        ("REMOTE_PORT", "5000"),
        ("HTTP_HOST", "a.example:8443"),
        ("HTTP_X_FORWARDED_FOR", "192.0.2.7"),
    ] {
        assert_eq!(params.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!params.contains_key("HTTP_PROXY"));
}

#[test]
fn a_body_that_is_elsewhere_is_the_callers_to_send() {
    let case = Case {
        head: "GET /index.php HTTP/1.1\r\nHost: a\r\n\r\n",
        path: "/index.php",
        mount: "",
        root: Some("/"),
        inline: None,
    };
    let records = records(&written(&case, &FieldLines::default()).unwrap());
    assert_eq!(records.last().unwrap(), &(kind::PARAMS, Vec::new()));
    let params = params(&records[1].1);
    assert_eq!((&*params["SCRIPT_FILENAME"], &*params["DOCUMENT_ROOT"]), ("/index.php", ""));
    assert!(!params.contains_key("CONTENT_LENGTH"));
}

#[test]
fn an_application_without_files_has_none_of_their_variables() {
    let case = Case {
        head: "GET /app/a.php/b HTTP/1.0\r\n\r\n",
        path: "/app/a.php/b",
        mount: "/app",
        root: None,
        inline: Some(b""),
    };
    let params = params(&records(&written(&case, &FieldLines::default()).unwrap())[1].1);
    assert_eq!((&*params["SCRIPT_NAME"], &*params["PATH_INFO"]), ("/app", "/a.php/b"));
    assert_eq!((&*params["SERVER_NAME"], &*params["SERVER_PROTOCOL"]), ("localhost", "HTTP/1.0"));
    for name in ["SCRIPT_FILENAME", "DOCUMENT_ROOT", "PATH_TRANSLATED", "HTTP_HOST"] {
        assert!(!params.contains_key(name), "{name}");
    }
}

#[test]
fn a_field_that_fits_into_no_record_is_refused() {
    let case =
        Case { head: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", path: "/", mount: "", root: None, inline: None };
    let mut fields = FieldLines::default();
    fields.field("x", &[b'x'; 65_536]);
    assert_eq!(written(&case, &fields), Err(PairTooBig));
}
