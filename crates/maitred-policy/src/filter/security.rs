//! `security_headers`: what MDN and OWASP recommend, where a response does not have it.
//!
//! From OWASP's "HTTP Security Response Headers Cheat Sheet" and the list of the OWASP Secure Headers Project
//! (`ci/headers_add.json`, 2 September 2024). `docs/headers.md` has the same table, and says where it differs, and why.

use super::scope::{Compiled, Scope};
use maitred_config::SecurityHeaders;

/// Fields that pages go on to work with, unless another site frames them, or they use a camera.
pub(crate) const USUAL: [(&str, &str); 5] = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    // `frame-ancestors` would override a stricter `X-Frame-Options` of an application.
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Cross-Origin-Opener-Policy", "same-origin-allow-popups"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
];

/// Fields for applications that were made with them.
pub(crate) const STRICT: [(&str, &str); 9] = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (
        "Content-Security-Policy",
        "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Permitted-Cross-Domain-Policies", "none"),
];

/// The fields of `response_headers` come before: what is set, filled in or removed there is not changed.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_route = scope.route.and_then(|route| route.security_headers);
    let of_site = scope.site.and_then(|site| site.security_headers);
    let fields: &[(&str, &str)] = match of_route.or(of_site).unwrap_or_default() {
        SecurityHeaders::Off => return,
        SecurityHeaders::Usual => &USUAL,
        SecurityHeaders::Strict => &STRICT,
    };
    compiled.needs_response = true;
    fields.iter().for_each(|(name, value)| compiled.always.add_if_absent(name, value.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_same_fields() {
        let page = include_str!("../../../../docs/headers.md");
        for (name, value) in USUAL.iter().chain(&STRICT) {
            assert!(
                page.contains(&format!("`{name}`")) && page.contains(&format!("`{value}`")),
                "{name}: {value}"
            );
        }
    }
}
