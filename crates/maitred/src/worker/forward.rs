//! What of a client's request goes on to an application or an HTTP server, and which other protocol it may switch to.

use maitred_handoff::HeadPart;
use maitred_http::request::{Framing, Request, Version};

use super::origin;
use crate::config::Pool;
use crate::route::Choice;

/// The protocol that the client may switch to: the first of those that it asks for which the pool allows; only in a request of
/// version 1.1 that ends with its head (9110-7.8). Names are compared without case, and the pool's spelling goes on.
///
/// No other one is known behind here. What is spoken after a switch is bytes to this server: requests in h2c, which a server may
/// speak without its operator knowing, would pass routes, limits, and what is said of the client.
pub(super) fn protocol<'p>(request: &Request<'_, '_>, pool: &'p Pool) -> Option<&'p str> {
    if !request.upgrade || request.version != Version::Http11 || request.framing != Framing::None {
        return None;
    }
    let upgrades = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("upgrade"));
    let mut asked = upgrades.flat_map(|field| field.value.split(|byte| *byte == b','));
    asked.find_map(|asked| {
        let is_asked = |allowed: &&String| asked.trim_ascii().eq_ignore_ascii_case(allowed.as_bytes());
        pool.upgrade.iter().find(is_asked).map(String::as_str)
    })
}

/// Whether a request on a stream is an extended CONNECT, which stands here as an upgrade, and what answers cannot give it the
/// protocol. A success of another kind would tell the client that it can (8441-5).
pub(super) fn would_mislead(request: &Request<'_, '_>, choice: &Choice<'_>, pools: &[Pool]) -> bool {
    request.upgrade
        && match choice {
            Choice::Files(_) => true,
            Choice::Pool(pool) => pools.get(*pool).is_none_or(|pool| protocol(request, pool).is_none()),
            Choice::Respond { status, .. } => (200..300).contains(status),
            Choice::Redirect { .. } | Choice::Nothing | Choice::NotThisMethod(_) => false,
        }
}

/// Appends the fields that go on: not those of this hop, nor those that [`origin::Teller::tell`] writes. `switch` is what the
/// request may switch to.
pub(super) fn append_fields(head: &mut HeadPart<'_>, request: &Request<'_, '_>, switch: Option<&str>) {
    for field in request.fields {
        let forwardable = maitred_handoff::is_forwardable(field.name)
            && !named_by_connection(request, field.name)
            && !origin::tells(field.name);
        if forwardable {
            head.field(field.name, field.value);
        }
    }
    if let Some(protocol) = switch {
        head.field("upgrade", protocol.as_bytes());
    }
}

/// Whether `Connection` names a field, which makes it one of this hop only (9110-7.6.1).
fn named_by_connection(request: &Request<'_, '_>, name: &str) -> bool {
    let connections = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
    let mut tokens = connections.flat_map(|field| field.value.split(|byte| *byte == b','));
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}
