//! `hsts`: `Strict-Transport-Security` on responses over TLS (RFC 6797).

use super::scope::{Compiled, Scope};

/// In cleartext it must not be sent (6797-7.2). An application that has such a field of its own knows better.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    if let Some(value) = scope.site.and_then(|site| site.hsts.as_ref()) {
        compiled.over_tls.add_if_absent("Strict-Transport-Security", value.as_bytes());
    }
}
