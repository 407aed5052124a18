//! A file that an application names instead of sending its bytes: `X-Accel-Redirect` and `X-Sendfile`, as nginx, Apache and
//! lighttpd know them; and how fast its response may leave: `X-Accel-Limit-Rate`.

use maitred_http::fields::FieldEdits;
use maitred_http::response::ResponseHead;

/// The fields of the application's response that the response with the file has, too. All others are about content that no client
/// gets.
const KEPT: [&str; 6] =
    ["Content-Type", "Content-Disposition", "Content-Language", "Cache-Control", "Expires", "Set-Cookie"];

/// How the file is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `X-Accel-Redirect`: the path of a URI, as it was sent.
    Uri(Vec<u8>),
    /// `X-Sendfile`: a path in the file system, as it was sent.
    Path(Vec<u8>),
}

/// What a response says that names a file.
#[derive(Debug)]
pub struct NamedFile {
    /// Which one.
    pub name: Name,
    /// What its response has of the application's.
    pub fields: Vec<(&'static str, Vec<u8>)>,
}

impl NamedFile {
    /// The file that a final response names; the first one, if it names several.
    pub fn of(head: &ResponseHead<'_>) -> Option<NamedFile> {
        let mut name = None;
        head.for_each(|field, value| {
            if field.eq_ignore_ascii_case(b"X-Accel-Redirect") {
                name.get_or_insert_with(|| Name::Uri(value.to_vec()));
            } else if field.eq_ignore_ascii_case(b"X-Sendfile") {
                name.get_or_insert_with(|| Name::Path(value.to_vec()));
            }
        });
        // Most responses name none: nothing of theirs is copied.
        let (name, mut fields) = (name?, Vec::new());
        head.for_each(|field, value| {
            if let Some(kept) = KEPT.iter().find(|kept| field.eq_ignore_ascii_case(kept.as_bytes())) {
                fields.push((*kept, value.to_vec()));
            }
        });
        Some(NamedFile { name, fields })
    }

    /// What is changed in the response with the file, besides what its route changes.
    pub fn edits(&self, of_route: &FieldEdits) -> FieldEdits {
        let mut edits = of_route.clone();
        for (name, value) in &self.fields {
            match *name {
                "Set-Cookie" => edits.add(name, value),
                name => edits.set(name, value),
            }
        }
        edits
    }
}

/// How many bytes of a response may leave in a second, by what it says itself: the first value that is a number, or `off`; 0
/// is any number. Everything else says nothing.
pub fn rate_of(head: &ResponseHead<'_>) -> Option<u64> {
    let mut rate = None;
    head.for_each(|field, value| {
        if rate.is_none() && field.eq_ignore_ascii_case(b"X-Accel-Limit-Rate") {
            rate = rate_in(value);
        }
    });
    rate
}

fn rate_in(value: &[u8]) -> Option<u64> {
    match value {
        b"off" => Some(0),
        // `u64` takes a sign, too.
        _ if !value.iter().all(u8::is_ascii_digit) => None,
        _ => std::str::from_utf8(value).ok()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use maitred_http::fields::FieldLines;

    use super::*;

    #[test]
    fn a_rate_is_a_number_or_off() {
        for (values, rate) in [
            (&["1024"][..], Some(1024)),
            (&["0"], Some(0)),
            (&["off"], Some(0)),
            (&["18446744073709551615"], Some(u64::MAX)),
            (&["18446744073709551616"], None),
            (&["10k"], None),
            (&["-1"], None),
            (&["+1"], None),
            (&["1 2"], None),
            (&[""], None),
            (&["OFF"], None),
            (&["fast", "7", "8"], Some(7)),
            (&[], None),
        ] {
            let mut fields = FieldLines::default();
            fields.push(b"Content-Type", b"text/plain");
            values.iter().for_each(|value| fields.push(b"x-accel-LIMIT-rate", value.as_bytes()));
            assert_eq!(rate_of(&ResponseHead::own(200, fields.all())), rate, "{values:?}");
        }
    }
}
