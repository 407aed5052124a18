//! Fields that say what only a proxy can know, where something is decided by them: what a client writes would decide.

use maitred_http::claims::{Claim, claim};

use super::super::finding::Span;
use super::super::reader::{Section, shorten};

/// What is decided by a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decides {
    /// A condition of a route.
    Condition,
    /// Which client a request is counted, or spread, for; this key says it by the address.
    Client(&'static str),
    /// Which part a request belongs to, or which server gets it: likewise, and no client gains anything by it.
    Spread(&'static str),
    /// What belongs together in the cache.
    Cached,
}

/// Reports a field of this name. Whether it comes from a proxy is not asked where it decides: Maitred replaces it only in what
/// pools get.
pub(super) fn check(section: &Section<'_>, span: &Span, (key, name): (&str, &str), decides: Decides) {
    if let Some(hint) = instead_of(name, decides) {
        let message = format!("`{key}`: `{}` is what any client can write", shorten(name));
        section.cx.error_with(span, message, hint);
    }
}

/// What to use in the place of a field; `None` if the field is the client's own.
pub(crate) fn instead_of(name: &str, decides: Decides) -> Option<String> {
    let claim = claim(name)?;
    let lower = name.to_ascii_lowercase().replace(['_', '.'], "-");
    // The field says nothing of the client, and each request has another one.
    if lower == "x-request-id" && matches!(decides, Decides::Spread(_)) {
        return None;
    }
    Some(match (decides, claim) {
        (Decides::Condition, Claim::Past) if lower == "x-forwarded-port" => {
            "`local_port` has the port that the connection has come in by".to_owned()
        }
        (Decides::Condition, Claim::User) => {
            "`user` has the users whom `basic_auth`, `jwt` or `forward_auth` lets pass".to_owned()
        }
        (Decides::Condition, Claim::Address) => {
            "`client` has the client's address; with `trusted_proxies` the one that they name".to_owned()
        }
        (Decides::Condition, Claim::Scheme) => {
            "`scheme` has what the client uses, with the word of `trusted_proxies`; `tls` what its connection here uses".to_owned()
        }
        (Decides::Condition, Claim::Host) => "`hosts` and `listen` of a [[site]] say whose requests these are".to_owned(),
        (Decides::Condition, Claim::Target) => "`path` and `path_regex` have the path, and `query` the rest".to_owned(),
        (Decides::Condition, Claim::Certificate) => {
            "`client_certificate` has whether the client has shown one that was verified, and `tls` whether it uses TLS".to_owned()
        }
        (Decides::Client(address) | Decides::Spread(address), _) => {
            format!("\"{address}\" is the client's address, with `trusted_proxies` the one that they name")
        }
        (Decides::Cached, Claim::Scheme | Claim::Host | Claim::Target) => {
            "scheme, host and path belong to the key already".to_owned()
        }
        _ => "use a field that no proxy, gateway or login service writes, or take it out".to_owned(),
    })
}
