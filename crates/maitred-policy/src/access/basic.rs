//! `basic_auth`: users with passwords (RFC 7617).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maitred_http::request::Request;
use zeroize::Zeroizing;

use maitred_base::passwords::PASSWORD_BYTES_MAX;
use maitred_config::BasicAuth;

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
    /// Index of the file with further users.
    pub file: Option<usize>,
    own: Users,
}

/// Users and their hashes.
#[derive(Debug, Default)]
pub struct Users {
    hashes: HashMap<Box<str>, Arc<str>>,
    /// A hash for users that are not there, so that the time of the answer does not show that; `None` if there are none.
    decoy: Option<Arc<str>>,
}

impl Users {
    /// Of names and hashes.
    pub fn new(users: &[(String, String)]) -> Users {
        let hash = |(name, hash): &(String, String)| (name.as_str().into(), hash.as_str().into());
        Users {
            hashes: users.iter().map(hash).collect(),
            decoy: users.first().map(|(_, hash)| hash.as_str().into()),
        }
    }
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
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", settings.realm).into();
        let (cache, remove_authorization) = (settings.cache, settings.remove_authorization);
        let (file, own) = (settings.users_file, Users::new(&settings.users));
        Basic { challenge, cache, remove_authorization, file, own }
    }

    /// The hash that a user's password has; and whether there is such a user. `of_file`: the users of the file as they are now.
    pub fn hash_of(&self, user: &str, of_file: &Users) -> (Arc<str>, bool) {
        let found = self.own.hashes.get(user).or_else(|| of_file.hashes.get(user));
        match found {
            Some(hash) => (Arc::clone(hash), true),
            None => {
                let decoy = of_file.decoy.as_ref().or(self.own.decoy.as_ref());
                (decoy.map_or_else(|| Arc::from(""), Arc::clone), false)
            }
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
        let user = |name: &str, hash: &str| (name.to_owned(), hash.to_owned());
        let settings = |users| BasicAuth {
            realm: "a b".to_owned(),
            users_file: Some(0),
            users,
            cache: Duration::ZERO,
            remove_authorization: false,
        };
        let basic = Basic::new(&settings(vec![user("bob", "$2y$05$b")]));
        let of_file = Users::new(&[user("ann", "$2y$05$a"), user("bob", "$2y$05$c")]);
        let hash = |basic: &Basic, name: &str, of_file: &Users| {
            let (hash, exists) = basic.hash_of(name, of_file);
            (hash.to_string(), exists)
        };
        assert_eq!(&*basic.challenge, "Basic realm=\"a b\", charset=\"UTF-8\"");
        assert_eq!(hash(&basic, "ann", &of_file), ("$2y$05$a".to_owned(), true));
        assert_eq!(
            hash(&basic, "bob", &of_file),
            ("$2y$05$b".to_owned(), true),
            "the configuration's own counts"
        );
        assert_eq!(hash(&basic, "eve", &of_file), ("$2y$05$a".to_owned(), false));
        assert_eq!(hash(&basic, "ann", &Users::default()), ("$2y$05$b".to_owned(), false));
        let empty = Basic::new(&settings(Vec::new()));
        assert_eq!(hash(&empty, "ann", &Users::default()), (String::new(), false), "which no password has");
    }
}
