//! Distinguished names in text (RFC 4514).

use std::fmt::Write as _;

use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::bytes::hex;

/// A name in text: the most specific part first (RFC 4514 section 2.1).
pub fn rfc_4514(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name
        .iter_rdn()
        .map(|part| {
            let attributes: Vec<String> = part.iter().map(attribute).collect();
            attributes.join("+")
        })
        .collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

/// `CN=Alice`; a type without a short name stands as `1.2.3=#` with the value's DER.
fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let kind = attribute.attr_type().to_id_string();
    match (short_name(&kind), attribute.as_str()) {
        (Some(short), Ok(text)) => format!("{short}={}", escaped(text)),
        _ => {
            let value = attribute.attr_value();
            let der = x509_parser::der_parser::asn1_rs::ToDer::to_der_vec(value).unwrap_or_default();
            format!("{kind}=#{}", hex(&der))
        }
    }
}

/// The table of RFC 4514 section 3, and those that OpenSSL, and so nginx and HAProxy, write in the same way.
fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return None,
    })
}

/// RFC 4514 section 2.4. Bytes that are not printable ASCII are escaped too, so that the text can stand in a header field.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for (at, byte) in text.bytes().enumerate() {
        let first = at == 0;
        let last = at + 1 == text.len();
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'#' if first => out.push_str("\\#"),
            b' ' if first || last => out.push_str("\\ "),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
}
