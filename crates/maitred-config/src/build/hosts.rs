//! Names in `hosts`.

use std::net::{IpAddr, Ipv6Addr};

use super::super::meaning::HostPattern;

/// A host name, `*.name`, or an IP address as it stands in a `Host` field; what is wrong with it otherwise.
pub(super) fn host(text: &str) -> Result<HostPattern, String> {
    let lower = text.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("*.") {
        check_name(rest)?;
        return Ok(HostPattern::Suffix(format!(".{rest}")));
    }
    if lower == "*" {
        return Err("the first site takes what no other site names, also without `hosts`".into());
    }
    if lower.contains('*') {
        return Err("a `*` stands only for whole labels at the start: \"*.example.com\"".into());
    }
    if let Some(inside) = lower.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = inside.parse().map_err(|_| format!("`{inside}` is not an IPv6 address"))?;
        return Ok(HostPattern::Exact(format!("[{address}]")));
    }
    if let Ok(IpAddr::V6(address)) = lower.parse() {
        return Err(format!("an IPv6 address stands in brackets in a `Host` field: \"[{address}]\""));
    }
    if lower.contains("://") {
        return Err("write the name alone, without \"http://\"".into());
    }
    if let Some((name, _)) = lower.split_once(':') {
        return Err(format!("a port makes no difference here: write \"{name}\""));
    }
    check_name(&lower)?;
    Ok(HostPattern::Exact(lower))
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 253 {
        return Err("a host name has 1 to 253 characters".into());
    }
    if !name.is_ascii() {
        return Err("browsers send such names in their \"xn--\" form (IDNA): write that".into());
    }
    if name.ends_with('.') {
        return Err("write the name without the dot at its end".into());
    }
    for label in name.split('.') {
        let known = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if label.is_empty() || label.len() > 63 || !known || label.starts_with('-') || label.ends_with('-') {
            return Err(format!("\"{label}\" cannot be a part of a host name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lowered_and_wildcards_kept_as_suffixes() {
        assert_eq!(host("WWW.Example.com"), Ok(HostPattern::Exact("www.example.com".into())));
        assert_eq!(host("*.Example.com"), Ok(HostPattern::Suffix(".example.com".into())));
        assert_eq!(host("[::1]"), Ok(HostPattern::Exact("[::1]".into())));
        assert_eq!(host("127.0.0.1"), Ok(HostPattern::Exact("127.0.0.1".into())));
        assert_eq!(host("localhost"), Ok(HostPattern::Exact("localhost".into())));
    }

    #[test]
    fn what_no_host_field_can_hold_is_refused() {
        for text in [
            "", "*", "a.*.b", "*", "http://a", "a:80", "::1", "[::1", "[x]", "a b", "a..b", ".a", "a.", "-a",
            "é.fr",
        ] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
