//! The static table (9204 Appendix A), and how fields are found in it.

/// Entries of the static table; the first one has index 0.
pub(crate) const FIELDS: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 32;

/// All indexes in the order of their names' lengths, those of one length ascending; and by length: where its names begin.
static BY_LENGTH: ([u8; FIELDS.len()], [u8; NAME_BYTES_MAX + 2]) = by_length();

const fn by_length() -> ([u8; FIELDS.len()], [u8; NAME_BYTES_MAX + 2]) {
    let (mut order, mut starts) = ([0; FIELDS.len()], [0; NAME_BYTES_MAX + 2]);
    let (mut length, mut count) = (0, 0);
    while length <= NAME_BYTES_MAX {
        starts[length] = count as u8;
        let mut index = 0;
        while index < FIELDS.len() {
            if FIELDS[index].0.len() == length {
                order[count] = index as u8;
                count += 1;
            }
            index += 1;
        }
        length += 1;
    }
    starts[length] = count as u8;
    assert!(count == FIELDS.len(), "a name is longer than the longest");
    (order, starts)
}

/// What the table has of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The entry with this index is the field.
    Field(usize),
    /// The entry with this index, the first one, has its name.
    Name(usize),
    Nothing,
}

/// The field at `index`, if the table has so many.
#[inline]
pub(super) fn get(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = FIELDS.get(index)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// Looks for a field whose name is given in any case.
pub(super) fn find(name: &[u8], value: &[u8]) -> Found {
    let (order, starts) = &BY_LENGTH;
    let start = |length: usize| starts.get(length).map(|start| usize::from(*start));
    let same_length = start(name.len()).zip(start(name.len() + 1));
    let indexes = same_length.and_then(|(start, end)| order.get(start..end)).unwrap_or_default();
    let first = name.first().map(u8::to_ascii_lowercase);
    let mut found = Found::Nothing;
    for index in indexes.iter().map(|index| usize::from(*index)) {
        let Some((known_name, known_value)) = get(index) else { break };
        if known_name.first().copied() == first && known_name.eq_ignore_ascii_case(name) {
            if known_value == value {
                return Found::Field(index);
            }
            if found == Found::Nothing {
                found = Found::Name(index);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_by_name_and_value_in_any_case() {
        for (index, (name, value)) in FIELDS.iter().enumerate() {
            for name in [(*name).to_owned(), name.to_ascii_uppercase()] {
                assert_eq!(find(name.as_bytes(), value.as_bytes()), Found::Field(index));
                let first = FIELDS.iter().position(|(known, _)| known.eq_ignore_ascii_case(&name)).unwrap();
                assert_eq!(find(name.as_bytes(), b"no such value"), Found::Name(first));
                assert_eq!(find(format!("{name}s").as_bytes(), b""), Found::Nothing);
            }
        }
        for name in ["", "x", "server-timing", &"x".repeat(32), &"x".repeat(33), &"x".repeat(100)] {
            assert_eq!(find(name.as_bytes(), b""), Found::Nothing);
        }
    }

    /// What can be checked by hand in Appendix A: the ends of its groups, of which each has a reason for its order.
    #[test]
    fn the_table_is_that_of_the_rfc() {
        let known = [
            (0, ":authority", ""),
            (1, ":path", "/"),
            (2, "age", "0"),
            (4, "content-length", "0"),
            (5, "cookie", ""),
            (14, "set-cookie", ""),
            (15, ":method", "CONNECT"),
            (17, ":method", "GET"),
            (20, ":method", "POST"),
            (21, ":method", "PUT"),
            (22, ":scheme", "http"),
            (23, ":scheme", "https"),
            (24, ":status", "103"),
            (25, ":status", "200"),
            (28, ":status", "503"),
            (29, "accept", "*/*"),
            (31, "accept-encoding", "gzip, deflate, br"),
            (44, "content-type", "application/dns-message"),
            (52, "content-type", "text/html; charset=utf-8"),
            (54, "content-type", "text/plain;charset=utf-8"),
            (56, "strict-transport-security", "max-age=31536000"),
            (59, "vary", "accept-encoding"),
            (62, "x-xss-protection", "1; mode=block"),
            (63, ":status", "100"),
            (71, ":status", "500"),
            (72, "accept-language", ""),
            (84, "authorization", ""),
            (85, "content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
            (95, "user-agent", ""),
            (98, "x-frame-options", "sameorigin"),
        ];
        for (index, name, value) in known {
            assert_eq!(FIELDS[index], (name, value), "{index}");
        }
        let count = |wanted: &str| FIELDS.iter().filter(|(name, _)| *name == wanted).count();
        assert_eq!((count(":method"), count(":status"), count("content-type")), (7, 14, 11));
        let bytes: usize = FIELDS.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert_eq!(bytes, 2026);
        let fields: std::collections::HashSet<_> = FIELDS.iter().collect();
        assert_eq!(fields.len(), FIELDS.len());
        assert!(FIELDS.iter().all(|(name, _)| !name.bytes().any(|byte| byte.is_ascii_uppercase())));
        assert_eq!(FIELDS.iter().map(|(name, _)| name.len()).max(), Some(NAME_BYTES_MAX));
    }
}
