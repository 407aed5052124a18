//! The prepared head of a representation: everything that does not change from one answer to the next.
//!
//! ```text
//! HTTP/1.1 200 OK            status line and length: of the whole representation
//! Content-Length: 12
//! Content-Type: text/html    `type_at`
//! Content-Encoding: br       `coding_at`; not in a multipart answer's head, which has a type of its own
//! Accept-Ranges: bytes
//! ETag: "…"                  `common_at`: what a 304 carries too (RFC 9110 section 15.4.5)
//! Last-Modified: …
//! Vary: Accept-Encoding
//! Cache-Control: no-cache    what `expires` says
//! X-Frame-Options: DENY      what `headers` sets
//! Server: maitred            what the filters of the route add
//! ```
//! `Date`, `Connection` and the empty line follow when an answer is written. A 206 or 304 takes its fields from the
//! same fields, from the place that fits.

use maitred_http::fields::{FieldEdits, FieldLines, Present};
use maitred_http::h1;

use maitred_config::{Coding, HeaderRules};

/// Fields that only the server itself can state: the framing of a message and the time of its making.
const RESERVED: [&str; 6] =
    ["connection", "content-length", "content-range", "date", "trailer", "transfer-encoding"];

/// The header rules of a set, split by where a field stands in the prepared head.
#[derive(Debug, Default)]
pub(super) struct FieldRules {
    content_type: Option<String>,
    lines: FieldLines,
    /// Lower-case names that are not to be written: removed, or replaced by a line in `lines`.
    masked: Vec<String>,
}

impl FieldRules {
    pub(super) fn new(rules: &HeaderRules) -> FieldRules {
        let mut this = FieldRules { masked: rules.remove.clone(), ..FieldRules::default() };
        for (name, value) in &rules.set {
            let lower = name.to_ascii_lowercase();
            if RESERVED.contains(&lower.as_str()) {
                continue;
            }
            if lower == "content-type" {
                this.content_type = Some(value.clone());
                continue;
            }
            this.lines.push(name.as_bytes(), value.as_bytes());
            // A set `Vary` is added to ours: what a response varies by is a fact that a configuration cannot change.
            if lower != "vary" {
                this.masked.push(lower);
            }
        }
        this
    }

    /// Whether our own field of this (lower-case) name is written.
    pub(super) fn keeps(&self, name: &str) -> bool {
        !self.masked.iter().any(|masked| masked == name)
    }

    /// The fields that the rules set, without `Content-Type`.
    pub(super) fn lines(&self) -> &FieldLines {
        &self.lines
    }

    /// Names of fields that are not written.
    pub(super) fn masked(&self) -> &[String] {
        &self.masked
    }
}

/// What a head is prepared from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) size: u64,
    /// `None` leaves the type to the client (RFC 9110 section 8.3).
    pub(super) content_type: &'a str,
    /// What `expires` says.
    pub(super) cache_control: Option<&'a [u8]>,
    pub(super) coding: Option<Coding>,
    /// With its quotes.
    pub(super) etag: Option<&'a str>,
    pub(super) last_modified: Option<&'a [u8; 29]>,
    pub(super) accept_ranges: bool,
    pub(super) vary: bool,
}

/// Places among the fields of a prepared head; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) type_at: u16,
    pub(super) coding_at: u16,
    pub(super) common_at: u16,
}

/// The prepared head of a 200, with the changes that the route makes.
pub(super) fn head(facts: &Facts<'_>, rules: &FieldRules, edits: &FieldEdits) -> (FieldLines, Places) {
    let mut lines = FieldLines::behind(h1::prepare(200));
    let mut present = Present::default();
    let mut put = |lines: &mut FieldLines, name: &str, value: &[u8]| {
        // Content in a coding could not be read without this.
        if edits.keeps(name.as_bytes(), &mut present) || name == "Content-Encoding" {
            lines.push(name.as_bytes(), value);
        }
    };
    put(&mut lines, "Content-Length", itoa::Buffer::new().format(facts.size).as_bytes());
    let type_at = lines.len() as u16;
    if rules.keeps("content-type") {
        let value = rules.content_type.as_deref().unwrap_or(facts.content_type);
        put(&mut lines, "Content-Type", value.as_bytes());
    }
    let coding_at = lines.len() as u16;
    if let Some(coding) = facts.coding {
        put(&mut lines, "Content-Encoding", token(coding).as_bytes());
    }
    if facts.accept_ranges {
        put(&mut lines, "Accept-Ranges", b"bytes");
    }
    let common_at = lines.len() as u16;
    if let Some(etag) = facts.etag {
        put(&mut lines, "ETag", etag.as_bytes());
    }
    if let Some(date) = facts.last_modified {
        put(&mut lines, "Last-Modified", date);
    }
    if facts.vary && rules.keeps("vary") {
        // The negotiation is a fact, no matter what the route says besides.
        lines.push(b"Vary", b"Accept-Encoding");
    }
    if let Some(value) = facts.cache_control.filter(|_| rules.keeps("cache-control")) {
        put(&mut lines, "Cache-Control", value);
    }
    for (name, value) in rules.lines.all().iter() {
        put(&mut lines, std::str::from_utf8(name).unwrap_or_default(), value);
    }
    edits.further(present).for_each(|(name, value)| lines.push(name, value));
    (lines, Places { type_at, coding_at, common_at })
}

/// The coding's name in `Content-Encoding` and `Accept-Encoding`.
pub(super) fn token(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => "br",
        Coding::Zstd => "zstd",
        Coding::Gzip => "gzip",
    }
}

/// What is added to a file's name to name its encoded sibling.
pub(super) fn extension(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => ".br",
        Coding::Zstd => ".zst",
        Coding::Gzip => ".gz",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(facts: &Facts<'_>, rules: &HeaderRules) -> String {
        let mut edits = FieldEdits::default();
        edits.add_if_absent("Server", b"maitred");
        let (lines, _) = head(facts, &FieldRules::new(rules), &edits);
        String::from_utf8(lines.into_parts().0).unwrap()
    }

    const FACTS: Facts<'_> = Facts {
        size: 12,
        content_type: "text/html; charset=utf-8",
        cache_control: Some(b"no-cache"),
        coding: Some(Coding::Brotli),
        etag: Some("\"a\""),
        last_modified: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"),
        accept_ranges: true,
        vary: true,
    };

    #[test]
    fn a_head_has_its_fields_in_the_documented_order() {
        assert_eq!(
            text(&FACTS, &HeaderRules::default()),
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/html; charset=utf-8\r\n\
             Content-Encoding: br\r\nAccept-Ranges: bytes\r\nETag: \"a\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nVary: Accept-Encoding\r\nCache-Control: no-cache\r\n\
             Server: maitred\r\n"
        );
    }

    #[test]
    fn rules_replace_remove_and_add_but_never_touch_the_framing() {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let rules = HeaderRules {
            set: vec![
                set("Content-Type", "text/plain"),
                set("Server", "mine"),
                set("Vary", "Origin"),
                set("Content-Length", "7"),
            ],
            remove: vec!["last-modified".to_owned(), "cache-control".to_owned()],
        };
        let facts = Facts { coding: None, etag: None, last_modified: None, ..FACTS };
        assert_eq!(
            text(&facts, &rules),
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/plain\r\nAccept-Ranges: bytes\r\n\
             Vary: Accept-Encoding\r\nServer: mine\r\nVary: Origin\r\n"
        );
        assert!(!FieldRules::new(&rules).keeps("last-modified"));
        let mut edits = FieldEdits::default();
        edits.remove("content-encoding");
        let (lines, _) = head(&FACTS, &FieldRules::new(&HeaderRules::default()), &edits);
        let text = String::from_utf8(lines.into_parts().0).unwrap();
        assert!(
            text.contains("\r\nContent-Encoding: br\r\n"),
            "without it, the content could not be read: {text}"
        );
    }
}
