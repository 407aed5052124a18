//! Files of users and hashed passwords, as htpasswd(1) writes them, and the check of a password.
//!
//! | a hash that begins with | is | by |
//! |---|---|---|
//! | `$2y$`, `$2b$`, `$2a$` | bcrypt | `htpasswd -B` |
//! | `$argon2id$`, `$argon2i$`, `$argon2d$` | Argon2 (RFC 9106) | argon2(1) |
//! | `$6$`, `$5$` | SHA-512 and SHA-256 of crypt(5) | `openssl passwd -6`, `htpasswd -5` |
//! | `$apr1$` | MD5, a thousand times, of Apache | `htpasswd`, unless it is told otherwise |
//!
//! What is no hash, or is found in a moment by trying all short passwords, is refused: plain text, `{SHA}`, crypt(3) with DES.

use argon2::{Argon2, PasswordHash, PasswordVerifier as _};
use md5::{Digest as _, Md5};

/// Users of one list.
pub const USERS_MAX: usize = 10_000;

/// The most bytes that a password may have: longer ones cannot be typed, and each byte is hashed many times.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// The highest cost of bcrypt: 2¹⁵ rounds take about two seconds, in which a helper thread does nothing else.
const BCRYPT_COST_MAX: u32 = 15;
/// The most memory that one check by Argon2 takes, in KiB.
const ARGON2_KIB_MAX: u32 = 256 * 1024;
/// The most passes over this memory.
const ARGON2_PASSES_MAX: u32 = 32;
/// The most rounds of SHA-512: a hundred times as many as without a number.
const SHA_ROUNDS_MAX: u32 = 500_000;

const APR1: &str = "$apr1$";
const HINT: &str = "`htpasswd -B FILE USER` makes one of bcrypt";

/// Whether this is a hash that passwords can be checked by, in a bounded time.
///
/// # Errors
/// Why not, for the operator.
pub fn check(hash: &str) -> Result<(), String> {
    let costs = |what: &str, most: u32| Err(format!("it costs too much: {what} is at most {most}"));
    if hash.starts_with("$2") {
        let cost = hash.parse::<bcrypt::HashParts>().map(|parts| parts.get_cost());
        return match cost {
            Ok(cost) if cost > BCRYPT_COST_MAX => costs("the cost of bcrypt", BCRYPT_COST_MAX),
            Ok(_) => Ok(()),
            Err(_) => Err("this is not a hash of bcrypt".to_owned()),
        };
    }
    if hash.starts_with("$argon2") {
        let parsed = PasswordHash::new(hash).ok();
        let params = parsed.as_ref().and_then(|parsed| argon2::Params::try_from(parsed).ok());
        return match params {
            Some(params) if params.m_cost() > ARGON2_KIB_MAX => costs("m", ARGON2_KIB_MAX),
            Some(params) if params.t_cost() > ARGON2_PASSES_MAX => costs("t", ARGON2_PASSES_MAX),
            Some(_) if parsed.is_some_and(|parsed| parsed.hash.is_some()) => Ok(()),
            _ => Err("this is not a hash of Argon2".to_owned()),
        };
    }
    if hash.starts_with("$5$") || hash.starts_with("$6$") {
        let rounds = hash.get(3..).and_then(|rest| rest.strip_prefix("rounds="));
        let rounds = rounds.and_then(|rest| rest.split('$').next());
        return match rounds.map(str::parse::<u32>) {
            Some(Ok(rounds)) if rounds > SHA_ROUNDS_MAX => costs("`rounds`", SHA_ROUNDS_MAX),
            Some(Err(_)) => Err("its number of rounds is none".to_owned()),
            _ if sha_crypt::PasswordHash::new(hash).is_ok() => Ok(()),
            _ => Err("this is not a hash of crypt(5)".to_owned()),
        };
    }
    if let Some(rest) = hash.strip_prefix(APR1) {
        let plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'));
        return match rest.split_once('$') {
            Some((salt, sum))
                if (1..=8).contains(&salt.len()) && sum.len() == 22 && plain(salt) && plain(sum) =>
            {
                Ok(())
            }
            _ => Err("this is not a hash of Apache's MD5".to_owned()),
        };
    }
    Err(match hash.starts_with('{') {
        true => format!("hashes without a salt are not taken: {HINT}"),
        false => format!("this is no hash, or one of an old kind: {HINT}"),
    })
}

/// Whether a hash is of a kind that is quickly tried: an operator should be told.
pub fn is_weak(hash: &str) -> bool {
    hash.starts_with(APR1)
}

/// Whether this is the password. The check takes as long as the hash wants it to, up to seconds.
pub fn verify(hash: &str, password: &[u8]) -> bool {
    if password.len() > PASSWORD_BYTES_MAX || check(hash).is_err() {
        return false;
    }
    if hash.starts_with("$2") {
        return bcrypt::verify(password, hash).unwrap_or(false);
    }
    if hash.starts_with("$argon2") {
        let Ok(parsed) = PasswordHash::new(hash) else { return false };
        return Argon2::default().verify_password(password, &parsed).is_ok();
    }
    if let Some(rest) = hash.strip_prefix(APR1) {
        let Some((salt, sum)) = rest.split_once('$') else { return false };
        let found = apr1(password, salt.as_bytes());
        return aws_lc_rs::constant_time::verify_slices_are_equal(&found, sum.as_bytes()).is_ok();
    }
    sha_crypt::ShaCrypt::default().verify_password(password, hash).is_ok()
}

/// A line of a file of users that is not as it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// The longest name of a user, in bytes: applications get it with each request.
pub const USER_NAME_BYTES_MAX: usize = 1024;

/// Whether this can be the name of a user: it goes into a header field, and a colon would end it (RFC 7617 section 2).
pub fn is_user_name(name: &str) -> bool {
    let fits = (1..=USER_NAME_BYTES_MAX).contains(&name.len());
    fits && name.trim() == name && !name.chars().any(|char| char.is_control() || char == ':')
}

/// The users of a file, as [`users`] has it.
///
/// # Errors
/// Why it cannot be used, for the operator.
pub fn read(text: &[u8]) -> Result<Vec<(String, String)>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    users(text).map_err(|bad| format!("line {}: {}", bad.line, bad.why))
}

/// The users of a file: lines `name:hash`, where what comes behind another colon is a comment, as are empty lines and those that
/// begin with `#`.
///
/// # Errors
/// The first line that is wrong.
pub(crate) fn users(text: &str) -> Result<Vec<(String, String)>, BadLine> {
    let mut users: Vec<(String, String)> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |why: String| Err(BadLine { line: at + 1, why });
        let mut parts = line.splitn(3, ':');
        let (Some(name), Some(hash)) = (parts.next(), parts.next()) else {
            return bad("it takes `name:hash`".to_owned());
        };
        if !is_user_name(name) {
            return bad("this cannot be the name of a user".to_owned());
        }
        if let Err(why) = check(hash) {
            return bad(why);
        }
        if !names.insert(name) {
            return bad(format!("the user \"{name}\" is there twice"));
        }
        if users.len() == USERS_MAX {
            return bad(format!("a file has at most {USERS_MAX} users"));
        }
        users.push((name.to_owned(), hash.to_owned()));
    }
    Ok(users)
}

/// Apache's variant of MD5-crypt, from its description in `apr_md5.c`: 22 digits of base 64.
fn apr1(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(APR1).chain_update(salt);
    for piece in password.chunks(inner.len()) {
        first.update(inner.get(..piece.len()).unwrap_or_default());
    }
    let mut bits = password.len();
    while bits > 0 {
        first.update(if bits & 1 == 1 { &[0][..] } else { password.get(..1).unwrap_or_default() });
        bits >>= 1;
    }
    let mut sum = first.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        next.update(if round % 2 == 1 { password } else { &sum });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if round % 2 == 1 { &sum[..] } else { password });
        sum = next.finalize();
    }
    digits(&sum)
}

/// The sum in the order and the digits of crypt(3).
fn digits(sum: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let byte = |at: usize| u32::from(sum.get(at).copied().unwrap_or_default());
    let mut text = Vec::with_capacity(22);
    let mut put = |mut value: u32, count: usize| {
        for _ in 0..count {
            text.push(DIGITS[(value & 63) as usize]);
            value >>= 6;
        }
    };
    GROUPS.iter().for_each(|[high, middle, low]| put(byte(*high) << 16 | byte(*middle) << 8 | byte(*low), 4));
    put(byte(11), 2);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of "secret", by htpasswd(1), openssl-passwd(1) and argon2(1).
    const OF_SECRET: [&str; 5] = [
        "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.",
        "$argon2id$v=19$m=1024,t=2,p=1$c2FsdHNhbHQ$5n+dqKA654HpeA9ZUkM9fgOil+sHaLHsKpxAaxMk/T4",
        "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
        "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
        "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
    ];

    #[test]
    fn passwords_are_known_by_the_hashes_of_other_programs() {
        for hash in OF_SECRET {
            assert_eq!(check(hash), Ok(()), "{hash}");
            assert!(verify(hash, b"secret") && !verify(hash, b"Secret") && !verify(hash, b""), "{hash}");
            assert!(!verify(hash, &[b'x'; PASSWORD_BYTES_MAX + 1]));
        }
        let long = b"a much longer password than sixteen bytes, of 50 b";
        assert!(verify("$apr1$ab$3BvjXV6fi3l3E.kE6zhpe/", long));
    }

    #[test]
    fn what_is_no_hash_or_costs_too_much_is_refused() {
        for (hash, why) in [
            ("secret", "this is no hash"),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "without a salt"),
            ("rqXexS6ZhobKA", "one of an old kind"),
            (
                "$2y$16$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui",
                "the cost of bcrypt is at most 15",
            ),
            ("$2y$05$short", "not a hash of bcrypt"),
            ("$argon2id$v=19$m=1048576,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA", "m is at most"),
            ("$argon2id$v=19$m=65536,t=100,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA", "t is at most"),
            ("$argon2id$v=19$m=65536,t=1,p=1$c2FsdHNhbHQ", "not a hash of Argon2"),
            ("$6$rounds=900000$salt$x", "`rounds` is at most"),
            ("$6$rounds=x$salt$x", "rounds is none"),
            ("$apr1$salt$short", "Apache's MD5"),
            ("", "this is no hash"),
        ] {
            let found = check(hash).unwrap_err();
            assert!(found.contains(why), "{hash}: {found}");
            assert!(!verify(hash, b"secret"));
        }
        assert!(is_weak("$apr1$a$b") && !is_weak("$2y$05$x"));
    }

    #[test]
    fn a_file_has_a_user_in_each_line() {
        let hash = OF_SECRET[4];
        let text = format!("# users\n\nann:{hash}\r\nbob smith:{hash}:his comment\n");
        let found = users(&text).unwrap();
        assert_eq!(found, [("ann".to_owned(), hash.to_owned()), ("bob smith".to_owned(), hash.to_owned())]);
        assert_eq!(users(""), Ok(Vec::new()));
        for (text, line, why) in [
            ("ann".to_owned(), 1, "name:hash"),
            (format!("ann:{hash}\nann:{hash}"), 2, "there twice"),
            (format!("ann:{hash}\nbob:secret"), 2, "this is no hash"),
            (format!(":{hash}"), 1, "the name of a user"),
            (format!("a\u{1}:{hash}"), 1, "the name of a user"),
        ] {
            let found = users(&text).unwrap_err();
            assert_eq!(found.line, line, "{text}");
            assert!(found.why.contains(why), "{text}: {}", found.why);
        }
        let many: String = (0..=USERS_MAX).map(|number| format!("u{number}:{hash}\n")).collect();
        assert_eq!(users(&many).unwrap_err().line, USERS_MAX + 1);
    }
}
