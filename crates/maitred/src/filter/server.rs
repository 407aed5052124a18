//! `server_header`: `Server: maitred` on responses that name no server (9110-10.2.4).

use super::scope::{Compiled, Scope};

/// Behind all others, which may have set or removed the field.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    if scope.server_header {
        compiled.always.add_if_absent("Server", b"maitred");
    }
}
