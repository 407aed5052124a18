//! Who the client of a request is, as far as that was proved to this server.
//!
//! | what | made | by |
//! |---|---|---|
//! | user | when a gate lets the request pass, by `Gated::identify` alone | `basic_auth`, `jwt`, `forward_auth` |
//! | certificate | at the end of the handshake of the connection | `tls.client_auth` |
//!
//! What a client says of itself (`Authorization` that was not checked, `X-Remote-User`) never becomes one. Everything that
//! depends on who the client is takes it from here: `REMOTE_USER` of FastCGI, the meta lines of the handoff protocol,
//! `X-Remote-User`, the access log, the keys of answers that are kept.

use maitred_tls::client;

/// The longest name of a user, in bytes. The subject of a token has at most 255 (OpenID Connect Core section 2), LDAP's names are
/// shorter than this. The name stands in the meta part of a frame, which has `META_BYTES_MAX` bytes in all.
pub(crate) const USER_BYTES_MAX: usize = maitred_base::passwords::USER_NAME_BYTES_MAX;

/// What has found a user out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A password (RFC 7617).
    BasicAuth,
    /// A signed token (RFC 6750).
    Jwt,
    /// Another server, in a way of its own.
    ForwardAuth,
}

impl Source {
    /// As `AUTH_TYPE` has it (RFC 3875 section 4.1.1): the scheme of HTTP where there is one, and a token of the server's own
    /// otherwise.
    pub(crate) fn auth_type(self) -> &'static str {
        match self {
            Source::BasicAuth => "Basic",
            Source::Jwt => "Bearer",
            Source::ForwardAuth => "forward_auth",
        }
    }
}

/// A user who was proved. The name can stand in a field, a variable and a line as it is, and is the same in all of them: it is
/// UTF-8 of 1 to [`USER_BYTES_MAX`] bytes, without control characters, and without white space at its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    name: Box<str>,
    source: Source,
}

impl User {
    /// The user of this name; `None` if it is no such name. A name is never made shorter: its beginning may be another user's.
    pub(crate) fn new(name: &[u8], source: Source) -> Option<User> {
        let name = std::str::from_utf8(name).ok().filter(|name| {
            (1..=USER_BYTES_MAX).contains(&name.len())
                && name.trim() == *name
                && !name.chars().any(char::is_control)
        })?;
        Some(User { name: name.into(), source })
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What has found the user out.
    pub(crate) fn source(&self) -> Source {
        self.source
    }
}

/// Who the client of a request is: none that is known, a user, the holder of a certificate, or both at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Identity<'a> {
    user: Option<&'a User>,
    certificate: Option<&'a client::Identity>,
}

impl<'a> Identity<'a> {
    /// What was proved by the request, and by the handshake of its connection.
    pub(crate) fn new(user: Option<&'a User>, certificate: Option<&'a client::Identity>) -> Identity<'a> {
        Identity { user, certificate }
    }

    /// The user.
    pub(crate) fn user(&self) -> Option<&'a User> {
        self.user
    }

    /// Whether the client has shown a certificate that was checked.
    pub(crate) fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// The certificate, in parts of which the first says whether there is one: what keys are made of.
    pub(crate) fn certificate_parts(&self, mut part: impl FnMut(&[u8])) {
        part(&[u8::from(self.certificate.is_some())]);
        if let Some(certificate) = self.certificate {
            certificate.fields().into_iter().for_each(|value| part(value.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_stand_in_a_line_and_a_field_or_is_none() {
        let longest = "x".repeat(USER_BYTES_MAX);
        for name in ["ann", "änn", "eve smith", "a=b", "CN=a,O=b", "ann@example.com", "a\u{2028}b", &longest]
        {
            let user = User::new(name.as_bytes(), Source::Jwt).unwrap();
            assert_eq!((user.name(), user.source()), (name, Source::Jwt));
        }
        let too_long = "x".repeat(USER_BYTES_MAX + 1);
        for name in
            ["", " ann", "ann ", "\u{a0}ann", "a\nb", "a\r", "a\0b", "a\tb", "a\u{7f}", "a\u{85}b", &too_long]
        {
            assert_eq!(User::new(name.as_bytes(), Source::BasicAuth), None, "{name:?}");
        }
        assert_eq!(User::new(b"Jos\xe9", Source::ForwardAuth), None, "no UTF-8");
    }

    #[test]
    fn a_certificate_is_a_part_of_keys_whether_there_is_one_or_not() {
        let parts = |identity: Identity<'_>| {
            let mut parts = Vec::new();
            identity.certificate_parts(|part| parts.push(part.to_vec()));
            parts
        };
        let alice =
            client::Identity { subject: "CN=Alice".into(), serial: "0A".into(), fingerprint: "ff".into() };
        assert_eq!(parts(Identity::default()), [vec![0]]);
        let known = parts(Identity::new(None, Some(&alice)));
        assert_eq!((known.len(), &known[0], &known[2]), (5, &vec![1], &b"CN=Alice".to_vec()));
    }
}
