//! `Accept-Encoding` (9110-12.5.3).

/// A weight in thousandths (9110-12.4.2): 0 is "not acceptable", 1000 is the most.
pub type Quality = u16;

/// The weight of what is acceptable only because nothing forbids it: below every weight that a client can
/// give.
const UNSAID: Quality = 1;

/// How acceptable a coding is to a client that sent this `Accept-Encoding`. Names are compared without case,
/// and `x-gzip` is `gzip`. Elements that are malformed are passed over.
///
/// Without the field a client accepts anything by the letter; but many programs that do not send it cannot
/// decode, so that only `identity` is taken for acceptable then.
pub fn accepts(header: Option<&[u8]>, coding: &str) -> Quality {
    let identity = coding.eq_ignore_ascii_case("identity");
    let unsaid = if identity { UNSAID } else { 0 };
    let Some(header) = header else { return unsaid };
    let mut any = None;
    for element in header.split(|byte| *byte == b',') {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let Some(quality) = weight(parts.next()) else { continue };
        if is_coding(name, coding) {
            return quality;
        }
        if name == b"*" && any.is_none() {
            any = Some(quality);
        }
    }
    any.unwrap_or(unsaid)
}

/// The coding to answer with: of those in `offered`, in the server's order of preference, the one with the
/// highest weight for the client, and otherwise `identity`. `None` if the client accepts none of them and not
/// `identity` either: then answer 406, or with `identity` all the same (9110-12.5.3 allows both).
///
/// ```
/// use maitred_http::negotiate::best;
/// assert_eq!(best(Some(b"gzip, br"), &["br", "zstd", "gzip"]), Some("br"));
/// assert_eq!(best(Some(b"gzip, br;q=0.5"), &["br", "zstd", "gzip"]), Some("gzip"));
/// assert_eq!(best(None, &["br", "zstd", "gzip"]), Some("identity"));
/// ```
pub fn best<'c>(header: Option<&[u8]>, offered: &[&'c str]) -> Option<&'c str> {
    let mut best = (0, None);
    for coding in offered.iter().copied().chain(["identity"]) {
        let quality = accepts(header, coding);
        if quality > best.0 {
            best = (quality, Some(coding));
        }
    }
    best.1
}

fn is_coding(name: &[u8], coding: &str) -> bool {
    let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
    name.eq_ignore_ascii_case(coding.as_bytes())
}

/// `q=0.123`; 1000 without a weight, `None` if it is malformed.
pub(crate) fn weight(parameter: Option<&[u8]>) -> Option<Quality> {
    let Some(parameter) = parameter else { return Some(1000) };
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, decimals): (_, &[u8]) = match value {
        [whole] => (whole, b""),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| decimals.get(at).map_or(0, |digit| Quality::from(digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_the_field_only_identity_is_acceptable() {
        assert_eq!(accepts(None, "gzip"), 0);
        assert!(accepts(None, "identity") > 0);
        assert_eq!(accepts(Some(b""), "gzip"), 0);
        assert!(accepts(Some(b""), "identity") > 0);
    }

    #[test]
    fn weights_are_read() {
        assert_eq!(accepts(Some(b"gzip"), "gzip"), 1000);
        assert_eq!(accepts(Some(b"br;q=1.0, GZIP ; q=0.8"), "gzip"), 800);
        assert_eq!(accepts(Some(b"gzip;Q=0.123"), "gzip"), 123);
        assert_eq!(accepts(Some(b"gzip;q=0"), "gzip"), 0);
        assert_eq!(accepts(Some(b"x-gzip"), "gzip"), 1000);
        assert_eq!(accepts(Some(b"gzipped"), "gzip"), 0);
    }

    #[test]
    fn malformed_elements_are_passed_over() {
        for bad in
            ["gzip;q=", "gzip;q=2", "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=.5", "gzip;level=1", "gzip;q=-1"]
        {
            assert_eq!(accepts(Some(bad.as_bytes()), "gzip"), 0, "{bad}");
        }
        assert_eq!(accepts(Some(b";;,,gzip;q=x, br"), "br"), 1000);
    }

    #[test]
    fn the_asterisk_names_what_is_not_named() {
        assert_eq!(accepts(Some(b"*"), "br"), 1000);
        assert_eq!(accepts(Some(b"*;q=0.5, br;q=0"), "br"), 0);
        assert_eq!(accepts(Some(b"*;q=0.5, br;q=0"), "gzip"), 500);
        assert_eq!(accepts(Some(b"*;q=0"), "identity"), 0);
        assert_eq!(accepts(Some(b"*;q=0, identity;q=0.1"), "identity"), 100);
    }

    #[test]
    fn identity_can_be_refused() {
        assert_eq!(accepts(Some(b"identity;q=0"), "identity"), 0);
        assert_eq!(best(Some(b"identity;q=0"), &["gzip"]), None);
        assert_eq!(best(Some(b"gzip;q=0.001, identity"), &["gzip"]), Some("identity"));
        assert_eq!(best(Some(b"gzip;q=0.001"), &["gzip"]), Some("gzip"));
        assert_eq!(best(Some(b"deflate"), &["gzip"]), Some("identity"));
    }

    proptest! {
        #[test]
        fn qualities_stay_in_bounds(header in "[a-z*;q=0-9., ]{0,24}") {
            prop_assert!(accepts(Some(header.as_bytes()), "a") <= 1000);
        }
    }
}
