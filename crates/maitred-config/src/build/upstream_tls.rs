//! `tls` of a pool.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use rustls::pki_types::ServerName;

use super::super::finding::{At, Span};
use super::super::reader::{Section, shorten};
use super::super::upstream_tls::UpstreamTls;
use maitred_base::pki::files;

/// `tls`; `None` where no server is spoken to over TLS. `secure`: whether they are.
pub(super) fn of(section: &Section<'_>, secure: bool) -> Option<UpstreamTls> {
    let given = section.given("tls");
    if !secure {
        if let Some(span) = given {
            let why = "it is for a pool with `connect = \"https://…\"`";
            section.cx.warn(&span, "`tls` has no effect".to_owned(), why);
        }
        return None;
    }
    let tls = section.section("tls");
    let ca = super::path(&tls, "ca");
    if let (Some(path), Some(span)) = (&ca, tls.given("ca")) {
        check(&tls, "ca", path, &span, |pem| {
            files::certificates(pem).err().map(|fault| (fault.text, fault.hint))
        });
    }
    let verify = tls.flag("verify");
    let pins: Vec<[u8; 32]> = tls.texts("pins").iter().filter_map(|text| pin(&tls, text)).collect();
    if !verify
        && pins.is_empty()
        && let Some(span) = tls.given("verify")
    {
        let message = "the certificates of these servers are not verified";
        tls.cx.warn(&span, message, "name `pins`, or the authority that has signed them as `ca`");
    }
    Some(UpstreamTls {
        ca,
        server_name: server_name(&tls),
        verify,
        pins,
        identity: identity(&tls),
        http2: tls.flag("http2"),
    })
}

fn check(
    tls: &Section<'_>,
    key: &str,
    path: &Path,
    span: &Span,
    wrong: impl Fn(&[u8]) -> Option<(String, &'static str)>,
) {
    let fault = match tls.cx.lookup.read(path) {
        Err(error) => Some((files::unreadable(&error, path), "")),
        Ok(text) => wrong(&text),
    };
    if let Some((text, hint)) = fault {
        match hint {
            "" => tls.cx.error(span, format!("`{key}`: {text}")),
            hint => tls.cx.error_with(span, format!("`{key}`: {text}"), hint),
        }
    }
}

fn server_name(tls: &Section<'_>) -> Option<String> {
    let text = tls.text("server_name")?;
    if ServerName::try_from(text.value.as_str()).is_err() {
        let message =
            format!("`server_name`: \"{}\" is no name of a host, and no address", shorten(&text.value));
        tls.cx.error(&text.span, message);
    }
    Some(text.value)
}

fn pin(tls: &Section<'_>, text: &At<String>) -> Option<[u8; 32]> {
    // curl writes two slashes, RFC 7469 none but its own syntax.
    let plain = text.value.strip_prefix("sha256/").map(|rest| rest.strip_prefix('/').unwrap_or(rest));
    let decoded = plain.and_then(|plain| {
        STANDARD.decode(plain).or_else(|_| STANDARD_NO_PAD.decode(plain)).ok()?.try_into().ok()
    });
    if decoded.is_none() {
        let message = format!("`pins`: \"{}\" is no SHA-256 of a key", shorten(&text.value));
        tls.cx.error_with(&text.span, message, "write \"sha256/\" and 32 bytes in base64");
    }
    decoded
}

fn identity(tls: &Section<'_>) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    let (certificate, key) = (super::path(tls, "certificate"), super::path(tls, "key"));
    match (certificate, key, tls.given("certificate"), tls.given("key")) {
        (Some(certificate), Some(key), Some(span), _) => {
            let read = |path: &Path| tls.cx.lookup.read(path);
            if let Err((fault, path)) = files::load(&certificate, &key, None, &read) {
                tls.cx.error(&span, format!("`certificate`, `key`: {}: {}", path.display(), fault.text));
            }
            Some((certificate, key))
        }
        (_, _, Some(span), None) => {
            tls.cx.error_with(&span, "`certificate` needs a `key`", "it is a file, too");
            None
        }
        (_, _, None, Some(span)) => {
            tls.cx.error_with(&span, "`key` needs a `certificate`", "it is a file, too");
            None
        }
        _ => None,
    }
}
