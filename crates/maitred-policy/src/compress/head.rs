//! What a coding changes in the fields of a response.

use maitred_http::fields::FieldLines;
use maitred_http::response::ResponseHead;

use maitred_config::Coding;

/// What the request is asked about, if a coding depends on it.
pub const VARY: (&[u8], &[u8]) = (b"Vary", b"Accept-Encoding");

/// The fields of a response with this coding, appended to `lines`; without one, those of a 304 about such a response. `varies`:
/// they say themselves what decides about codings.
///
/// An entity tag becomes a weak one: the bytes are not those that the application has named (RFC 9110 section 8.8.1), and may
/// differ from one time to the next. Ranges are of the plain content, so that none are offered.
pub fn put(head: &ResponseHead<'_>, varies: bool, coding: Option<Coding>, lines: &mut FieldLines) {
    head.for_each(|name, value| {
        let is = |expected: &str| name.eq_ignore_ascii_case(expected.as_bytes());
        match name.len() {
            4 if is("etag") && !value.starts_with(b"W/") => lines.push(name, &[b"W/", value].concat()),
            13 if is("accept-ranges") && coding.is_some() => {}
            14 if is("content-length") && coding.is_some() => {}
            // The coding can only be `identity`.
            16 if is("content-encoding") && coding.is_some() => {}
            _ => lines.push(name, value),
        }
    });
    if let Some(coding) = coding {
        lines.push(b"Content-Encoding", coding.token().as_bytes());
    }
    if !varies {
        lines.push(VARY.0, VARY.1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Facts;
    use super::*;

    fn changed(fields: &[(&str, &str)], coding: Option<Coding>) -> String {
        let (mut before, mut lines) = (FieldLines::default(), FieldLines::default());
        fields.iter().for_each(|(name, value)| before.push(name.as_bytes(), value.as_bytes()));
        let head = ResponseHead::own(200, before.all());
        let mut facts = Facts::new(200);
        head.for_each(|name, value| facts.note(name, value));
        put(&head, facts.varies, coding, &mut lines);
        let shown = |(name, value): (&[u8], &[u8])| {
            format!("{}: {}|", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        lines.all().iter().map(shown).collect()
    }

    #[test]
    fn lengths_and_ranges_go_and_entity_tags_become_weak() {
        let fields = [
            ("Content-Type", "text/html"),
            ("content-length", "2000"),
            ("Accept-Ranges", "bytes"),
            ("ETag", "\"a\""),
            ("Content-Encoding", "identity"),
            ("Vary", "Cookie"),
        ];
        assert_eq!(
            changed(&fields, Some(Coding::Zstd)),
            "Content-Type: text/html|ETag: W/\"a\"|Vary: Cookie|Content-Encoding: zstd|Vary: Accept-Encoding|"
        );
        assert_eq!(
            changed(&[("ETag", "W/\"a\""), ("vary", "Accept-Encoding")], Some(Coding::Gzip)),
            "ETag: W/\"a\"|vary: Accept-Encoding|Content-Encoding: gzip|"
        );
    }

    #[test]
    fn a_304_names_what_the_client_has() {
        assert_eq!(
            changed(&[("etag", "\"a\""), ("Accept-Ranges", "bytes")], None),
            "etag: W/\"a\"|Accept-Ranges: bytes|Vary: Accept-Encoding|"
        );
    }
}
