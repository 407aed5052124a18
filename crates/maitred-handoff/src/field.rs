//! One line of a head, or behind a body.

/// Appends one line; false, and nothing appended, if it cannot be sent.
pub(crate) fn append_field(out: &mut Vec<u8>, name: &str, value: &[u8]) -> bool {
    if !is_token(name) || value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return false;
    }
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
    true
}

/// RFC 9110, section 5.6.2.
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
