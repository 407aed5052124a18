//! `basic_auth`: users with passwords (RFC 7617).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maitred_http::request::Request;
use zeroize::Zeroizing;

use crate::config::BasicAuth;
use crate::passwords::PASSWORD_BYTES_MAX;

/// The longest name of a user and its password, encoded.
const ENCODED_BYTES_MAX: usize = 2 * PASSWORD_BYTES_MAX;

/// The users of a site or a route.
#[derive(Debug)]
pub struct Basic {
    /// The value of `WWW-Authenticate`.
    pub challenge: Box<str>,
    /// How long a password that was right is not hashed again.
    pub cache: Duration,
    /// Pools do not get `Authorization`.
    pub remove_authorization: bool,
    users: HashMap<Box<str>, Arc<str>>,
    /// A hash for users that are not there, so that the time of the answer does not show that.
    decoy: Arc<str>,
}

/// What a client says who it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Zeroizing<Vec<u8>>,
}

impl Basic {
    /// Compiles them.
    pub fn new(settings: &BasicAuth) -> Basic {
        let users: HashMap<Box<str>, Arc<str>> =
            settings.users.iter().map(|(name, hash)| (name.as_str().into(), hash.as_str().into())).collect();
        let decoy =
            settings.users.first().map_or_else(|| Arc::from(""), |(_, hash)| Arc::from(hash.as_str()));
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", settings.realm).into();
        let (cache, remove_authorization) = (settings.cache, settings.remove_authorization);
        Basic { challenge, cache, remove_authorization, users, decoy }
    }

    /// The hash that a user's password has; and whether there is such a user.
    pub fn hash_of(&self, user: &str) -> (&Arc<str>, bool) {
        match self.users.get(user) {
            Some(hash) => (hash, true),
            None => (&self.decoy, false),
        }
    }
}

/// What a request says who its client is: in one field, whose scheme is compared without case (9110-11.1).
pub fn credentials(request: &Request<'_, '_>) -> Option<Credentials> {
    let mut given = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("authorization"));
    let (value, None) = (given.next()?.value, given.next()) else { return None };
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") || encoded.len() > ENCODED_BYTES_MAX {
        return None;
    }
    let mut decoded = Zeroizing::new(STANDARD.decode(encoded.trim_ascii()).ok()?);
    let colon = memchr::memchr(b':', &decoded)?;
    let user = std::str::from_utf8(decoded.get(..colon)?).ok()?.to_owned();
    let password = Zeroizing::new(decoded.split_off(colon + 1));
    (!user.is_empty() && password.len() <= PASSWORD_BYTES_MAX).then_some(Credentials { user, password })
}

#[cfg(test)]
mod tests {
    use maitred_http::request;

    use super::*;

    fn given(fields: &str) -> Option<(String, String)> {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let limits = request::HeadLimits {
            head_bytes_max: 16384,
            header_count_max: 64,
            target_bytes_max: 1024,
            body_bytes_max: 1 << 30,
        };
        let mut room = request::field_room();
        let (request, _) = request::parse(text.as_bytes(), &mut room, &limits).unwrap().unwrap();
        credentials(&request).map(|found| (found.user, String::from_utf8(found.password.to_vec()).unwrap()))
    }

    #[test]
    fn credentials_are_a_name_and_a_password() {
        let field =
            |scheme: &str, text: &str| format!("Authorization: {scheme} {}\r\n", STANDARD.encode(text));
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(given(&field("Basic", "ann:secret")), pair("ann", "secret"));
        assert_eq!(given(&field("bAsIC", "ann:se:cr:et")), pair("ann", "se:cr:et"));
        assert_eq!(given(&field("Basic", "änn:")), pair("änn", ""));
        let long = format!("ann:{}", "x".repeat(PASSWORD_BYTES_MAX));
        assert!(
            given(&field("Basic", &long)).is_some() && given(&field("Basic", &format!("{long}x"))).is_none()
        );
        for fields in [
            String::new(),
            field("Bearer", "ann:secret"),
            field("Basic", "ann"),
            field("Basic", ":secret"),
            "Authorization: Basic\r\n".to_owned(),
            "Authorization: Basic !!!!\r\n".to_owned(),
            field("Basic", "ann:secret").repeat(2),
            field("Basic", &"x".repeat(5000)),
        ] {
            assert_eq!(given(&fields), None, "{fields}");
        }
    }

    #[test]
    fn a_user_who_is_not_there_takes_as_long_as_one_who_is() {
        let users =
            vec![("ann".to_owned(), "$2y$05$a".to_owned()), ("bob".to_owned(), "$2y$05$b".to_owned())];
        let settings =
            BasicAuth { realm: "a b".to_owned(), users, cache: Duration::ZERO, remove_authorization: false };
        let basic = Basic::new(&settings);
        assert_eq!(&*basic.challenge, "Basic realm=\"a b\", charset=\"UTF-8\"");
        assert_eq!((&**basic.hash_of("bob").0, basic.hash_of("bob").1), ("$2y$05$b", true));
        assert_eq!((&**basic.hash_of("eve").0, basic.hash_of("eve").1), ("$2y$05$a", false));
    }
}
