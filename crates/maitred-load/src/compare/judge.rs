//! Two responses, and what the applications received: the differences between them.

use super::client::{Failure, Response};
use super::decode::decoded;
use super::difference::Difference;
use super::echo::Received;
use super::fields::{self, About, Fields};
use super::request::{Request, printable};
use super::rules;
use super::uri::Own;

/// Characters of a body that are shown.
const SHOWN_CHARS: usize = 80;
/// Bytes of a page that a server has made by itself; Apache's have some hundreds.
const OWN_PAGE_BYTES_MAX: usize = 4096;

/// What one side did with a request.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) own: &'a Own,
    pub(super) answer: Result<Response, Failure>,
    /// Its applications are known.
    pub(super) has_echo: bool,
    /// What its applications received.
    pub(super) received: Vec<Received>,
}

impl Side<'_> {
    fn status(&self) -> String {
        match &self.answer {
            Ok(response) => response.status.to_string(),
            Err(failure) => failure.to_string(),
        }
    }
}

/// All differences. Where the statuses differ, fields and bodies are of different things, and only what the applications
/// received is compared as well.
pub(super) fn differences(
    request: &Request,
    left: &Side<'_>,
    right: &Side<'_>,
    max: usize,
) -> Vec<Difference> {
    let mut found = Vec::new();
    match (&left.answer, &right.answer) {
        (Ok(one), Ok(two)) if one.status == two.status => {
            let target = String::from_utf8_lossy(&request.target);
            let are_own_pages = is_own_page(request, one, max) && is_own_page(request, two, max);
            let about = About { target: &target, is_head: request.method == "HEAD", are_own_pages };
            let sides: [(&Fields, &Own); 2] = [(&one.fields, left.own), (&two.fields, right.own)];
            let has_no_validators = has_no_validators(left, one) && has_no_validators(right, two);
            let prefix = prefix(&request.method, one.status, has_no_validators);
            found.extend(fields::differences(prefix, rules::RESPONSE, about, sides));
            let are_listings = is_listing(one, max) && is_listing(two, max);
            if !are_own_pages && !are_listings {
                found.extend(bodies(one, two, max));
            }
        }
        _ => {
            let (one, two) = (left.status(), right.status());
            if one != two {
                let prefix = if request.method == "OPTIONS" { "options: " } else { "" };
                let kind = format!("{prefix}status {one} -> {two}");
                found.push(Difference { kind, left: one, right: two });
            }
        }
    }
    found.extend(applications(left, right));
    found
}

/// What stands before a kind: servers differ in which fields errors and redirects have, and in what they have of a site for a
/// request that is none. These are kinds of their own, so that they can be accepted apart.
fn prefix(method: &str, status: u16, has_no_validators: bool) -> &'static str {
    match status {
        ..=299 if method == "OPTIONS" => "options: ",
        ..=299 if has_no_validators => "without validators: ",
        301 | 302 | 303 | 307 | 308 => "redirect: ",
        304 => "not modified: ",
        400 => "no request: ",
        401.. => "error: ",
        _ => "",
    }
}

/// Whether a response is neither a file, which has validators, nor what an application was seen to answer: mostly it is a text of
/// the configuration.
fn has_no_validators(side: &Side<'_>, response: &Response) -> bool {
    side.has_echo
        && side.received.is_empty()
        && response.field("etag").is_none()
        && response.field("last-modified").is_none()
}

/// Whether a response is a page about a directory. Each server has its own.
fn is_listing(response: &Response, max: usize) -> bool {
    let is_html = response.field("content-type").is_some_and(|kind| kind.starts_with(b"text/html"));
    let body = content(response, max).unwrap_or_default();
    is_html && memchr::memmem::find(&body, b"<title>Index of").is_some()
}

/// Whether a response other than a successful one is the server's own, and no page that it was given. Each server has other words
/// for these. The response to HEAD shows no page; that to GET does.
fn is_own_page(request: &Request, response: &Response, max: usize) -> bool {
    if response.status < 300 || !response.is_whole {
        return false;
    }
    if request.method == "HEAD" || response.body.is_empty() {
        return true;
    }
    let Ok(body) = content(response, max) else { return false };
    if body.len() > OWN_PAGE_BYTES_MAX {
        return false;
    }
    let text = String::from_utf8_lossy(&body);
    let title = format!("<title>{} ", response.status);
    let is_nginx = text.contains(&title) && text.contains("<hr><center>");
    let is_apache =
        text.starts_with("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">") && text.contains(&title);
    // Maitred and Caddy: the status in one line.
    let is_line = text.starts_with(&format!("{} ", response.status)) && text.lines().count() == 1;
    is_nginx || is_apache || is_line
}

fn bodies(left: &Response, right: &Response, max: usize) -> Option<Difference> {
    let of = if left.status < 300 { "body".to_owned() } else { format!("body of {}", left.status) };
    let (one, two) = match (content(left, max), content(right, max)) {
        (Ok(one), Ok(two)) => (one, two),
        (one, two) => {
            let shown = |side: Result<Vec<u8>, String>| match side {
                Ok(_) => "can be decoded".to_owned(),
                Err(coding) => format!("{} cannot be decoded", printable(coding.as_bytes(), 40)),
            };
            let kind = match (&one, &two) {
                // The same bytes are the same, whatever they are.
                (Err(_), Err(_)) if left.body == right.body => return None,
                (Err(_), Err(_)) => format!("{of} cannot be decoded on either side"),
                (Err(_), Ok(_)) => format!("{of} cannot be decoded on the left"),
                _ => format!("{of} cannot be decoded on the right"),
            };
            return Some(Difference { kind, left: shown(one), right: shown(two) });
        }
    };
    // Of what was not read to its end, the part that both have is compared.
    let are_whole = left.is_whole && right.is_whole;
    let common = if are_whole { usize::MAX } else { one.len().min(two.len()) };
    let (head_one, head_two) = (one.get(..common).unwrap_or(&one), two.get(..common).unwrap_or(&two));
    let is_same_end = left.is_whole == right.is_whole || one.len() == two.len();
    if head_one == head_two && is_same_end {
        return None;
    }
    let at = head_one.iter().zip(head_two).take_while(|(one, two)| one == two).count();
    let shown = |body: &[u8]| {
        let piece = body.get(at..).unwrap_or_default();
        format!("{} bytes, from byte {at}: {}", body.len(), printable(piece, SHOWN_CHARS))
    };
    Some(Difference { kind: format!("{of} differs"), left: shown(&one), right: shown(&two) })
}

/// The content without its codings, and without the boundary of its parts.
fn content(response: &Response, max: usize) -> Result<Vec<u8>, String> {
    let field = |name| response.field(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let coding = field("content-encoding").unwrap_or_default();
    let body = match response.is_whole {
        true => decoded(&response.body, &coding, max)?,
        // What has an end missing cannot be decoded to it.
        false => response.body.clone(),
    };
    let kind = field("content-type").unwrap_or_default();
    let boundary = kind
        .split_once("boundary=")
        .filter(|_| kind.to_ascii_lowercase().starts_with("multipart/byteranges"))
        .map(|(_, rest)| rest.split(';').next().unwrap_or_default().trim().trim_matches('"').to_owned())
        .filter(|boundary| (1..=70).contains(&boundary.len()));
    let Some(boundary) = boundary else { return Ok(body) };
    // Before the first part and behind the last one, an empty line means nothing (RFC 2046 section 5.1.1).
    let body = replaced(&body, boundary.as_bytes(), b"(boundary)");
    // The type of a part is that of the whole, which is compared by itself.
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    let is_kept = |line: &&[u8]| {
        let name = line.get(..TYPE.len()).unwrap_or_default();
        !name.eq_ignore_ascii_case(TYPE)
    };
    Ok(lines.filter(is_kept).collect::<Vec<_>>().concat().trim_ascii().to_vec())
}

const TYPE: &[u8] = b"content-type:";

/// With another text in the place of one that each side makes up.
fn replaced(body: &[u8], text: &[u8], by: &[u8]) -> Vec<u8> {
    let (mut out, mut from) = (Vec::with_capacity(body.len()), 0);
    for at in memchr::memmem::find_iter(body, text) {
        out.extend_from_slice(body.get(from..at).unwrap_or_default());
        out.extend_from_slice(by);
        from = at + text.len();
    }
    out.extend_from_slice(body.get(from..).unwrap_or_default());
    out
}

fn applications(left: &Side<'_>, right: &Side<'_>) -> Vec<Difference> {
    let say = |what: &str, left: String, right: String| Difference {
        kind: format!("application: {what}"),
        left,
        right,
    };
    let line = |received: &[Received]| match received {
        [] => "no request".to_owned(),
        [one] => format!("{} {}", printable(one.method.as_bytes(), 40), printable(&one.target, 200)),
        several => format!("{} requests", several.len()),
    };
    let (one, two) = (&left.received, &right.received);
    let shown = (line(one), line(two));
    match (one.is_empty(), two.is_empty()) {
        (true, true) => return Vec::new(),
        (false, true) => return vec![say("request missing on the right", shown.0, shown.1)],
        (true, false) => return vec![say("request missing on the left", shown.0, shown.1)],
        _ if one.len() != two.len() => return vec![say("number of requests differs", shown.0, shown.1)],
        _ => {}
    }
    let mut found = Vec::new();
    for (one, two) in one.iter().zip(two) {
        if one.method != two.method {
            found.push(say("method differs", one.method.clone(), two.method.clone()));
        }
        if one.target != two.target {
            let shown = |received: &Received| printable(&received.target, 200);
            let what = how_targets_differ(&one.target, &two.target);
            found.push(say(what, shown(one), shown(two)));
        }
        let sides: [(&Fields, &Own); 2] = [(&one.fields, left.own), (&two.fields, right.own)];
        found.extend(fields::differences("application: ", rules::REQUEST, About::default(), sides));
        if (one.body_bytes, one.body_hash) != (two.body_bytes, two.body_hash) {
            let shown = |received: &Received| format!("{} bytes", received.body_bytes);
            found.push(say("body differs", shown(one), shown(two)));
        }
    }
    found
}

fn how_targets_differ(one: &[u8], two: &[u8]) -> &'static str {
    match (one, two) {
        ([], _) => "target missing on the left",
        ([rest @ .., b'?'], other) | (other, [rest @ .., b'?']) if rest == other => {
            "target differs in an empty query"
        }
        ([b'/', rest @ ..], other) if rest == other => "target differs in its first slash",
        _ => "target differs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1000;

    fn response(status: u16, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        Response { status, fields: fields.collect(), body: body.as_ref().to_vec(), is_whole: true }
    }

    fn kinds_of(
        request: &Request,
        left: (Result<Response, Failure>, Vec<Received>),
        right: (Result<Response, Failure>, Vec<Received>),
    ) -> Vec<String> {
        let own = Own { scheme: "http", asked: "a".into(), ..Own::default() };
        let side = |(answer, received)| Side { own: &own, answer, has_echo: false, received };
        differences(request, &side(left), &side(right), MAX).into_iter().map(|found| found.kind).collect()
    }

    fn kinds(left: Response, right: Response) -> Vec<String> {
        kinds_of(&Request::get("/"), (Ok(left), Vec::new()), (Ok(right), Vec::new()))
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_status_that_differs_stands_for_all() {
        let kinds = kinds(response(404, &[("x-a", "1")], "a"), response(200, &[], "b"));
        assert_eq!(kinds, ["status 404 -> 200"]);
        let failed = |failure| (Err(failure), Vec::new());
        let ok = || (Ok(response(200, &[], "")), Vec::new());
        let get = Request::get("/");
        assert_eq!(kinds_of(&get, failed(Failure::Timeout), ok()), ["status timeout -> 200"]);
        assert!(kinds_of(&get, failed(Failure::Closed), failed(Failure::Closed)).is_empty());
        assert_eq!(kinds_of(&get, failed(Failure::Closed), failed(Failure::Timeout)).len(), 1);
    }

    #[test]
    fn bodies_are_compared_without_their_codings() {
        let body = gzip(b"content");
        let zip = [("content-encoding", "gzip")];
        assert!(kinds(response(200, &zip, &body), response(200, &zip, &body)).is_empty());
        assert_eq!(
            kinds(response(200, &zip, &body), response(200, &[], "content")),
            ["field content-encoding missing on the right"]
        );
        assert_eq!(
            kinds(response(200, &zip, "no gzip"), response(200, &zip, &body)),
            ["body cannot be decoded on the left"]
        );
        assert_eq!(kinds(response(200, &[], "a"), response(200, &[], "b")), ["body differs"]);
        assert_eq!(kinds(response(404, &[], "a"), response(404, &[], "b")), ["body of 404 differs"]);
    }

    #[test]
    fn parts_of_a_body_may_have_any_boundary() {
        let parts = |boundary: &str, end: &str| {
            let kind = format!("multipart/byteranges; boundary={boundary}");
            let body = format!("\r\n--{boundary}\r\n\r\na\r\n--{boundary}--\r\n{end}");
            response(206, &[("content-type", &kind)], body)
        };
        assert!(kinds(parts("0001", ""), parts("xyz", "\r\n")).is_empty());
        assert_eq!(kinds(parts("0001", ""), parts("xyz", "more")), ["body differs"]);
        let of_type = |kind: &str| {
            let body = format!("--x\r\nContent-Type: {kind}\r\nContent-Range: bytes 0-0/2\r\n\r\na\r\n--x--");
            response(206, &[("content-type", "multipart/byteranges; boundary=x")], body)
        };
        assert!(kinds(of_type("text/plain"), of_type("text/css; charset=utf-8")).is_empty());
    }

    #[test]
    fn what_was_not_read_to_its_end_is_compared_so_far() {
        let part = |body: &str| Response { is_whole: false, ..response(200, &[], body) };
        assert!(kinds(part("aaaa"), part("aaaa")).is_empty());
        assert_eq!(kinds(part("aaaa"), part("aaab")), ["body differs"]);
        assert_eq!(kinds(part("aaaa"), response(200, &[], "aa")), ["body differs"]);
    }

    #[test]
    fn own_pages_are_the_same_and_given_ones_are_not() {
        let nginx = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1>\
            </center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
        let apache = "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>404 Not Found</title>";
        let html = [("content-type", "text/html"), ("content-length", "1")];
        let text = [("content-type", "text/plain")];
        for page in [nginx, apache, "404 Not Found", ""] {
            assert!(
                kinds(response(404, &html, page), response(404, &text, "404 Not Found")).is_empty(),
                "{page}"
            );
            let found = kinds(response(404, &html, page), response(404, &text, "<h1>Not here</h1>"));
            assert_eq!(
                found,
                ["error: field content-type text/html -> text/plain", "body of 404 differs"],
                "{page}"
            );
        }
        assert_eq!(kinds(response(200, &[], "404 Not Found"), response(200, &[], "")), ["body differs"]);
        let zipped = [("content-type", "text/html"), ("content-encoding", "gzip")];
        assert!(kinds(response(404, &zipped, gzip(nginx.as_bytes())), response(404, &text, "")).is_empty());
    }

    fn received(target: &str, fields: &[(&str, &str)]) -> Received {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        Received {
            method: "GET".into(),
            target: target.as_bytes().to_vec(),
            fields: fields.collect(),
            body_bytes: 0,
            body_hash: 0,
        }
    }

    #[test]
    fn what_applications_received_is_compared() {
        let app = |left: Vec<Received>, right: Vec<Received>| {
            let ok = || Ok(response(200, &[], ""));
            kinds_of(&Request::get("/"), (ok(), left), (ok(), right))
        };
        let one = received("/a", &[("x-real-ip", "::1"), ("connection", "close")]);
        assert!(app(vec![one.clone()], vec![one.clone()]).is_empty());
        assert_eq!(app(vec![one.clone()], vec![]), ["application: request missing on the right"]);
        assert_eq!(app(vec![], vec![one.clone()]), ["application: request missing on the left"]);
        assert_eq!(app(vec![one.clone()], vec![one.clone(); 2]), ["application: number of requests differs"]);
        let other = Received { method: "HEAD".into(), body_bytes: 1, ..received("/b", &[]) };
        assert_eq!(
            app(vec![one], vec![other]),
            [
                "application: method differs",
                "application: target differs",
                "application: field x-real-ip missing on the right",
                "application: body differs"
            ]
        );
    }
}
