//! A request action: admits requests with a token, and says whose it is in a field for what the route goes on to. All others get
//! 403.
//!
//! ```toml
//! pool = "app"
//! module = { path = "/usr/local/lib/maitred/libtoken.so", config = { key = "/etc/maitred/token.key" }, request_fields = ["X-User"] }
//! ```
//!
//! A token is `USER.EXPIRY.SIGNATURE`, in the cookie `token` or the query parameter `token`. USER is of letters, digits, `-` and
//! `_`; EXPIRY is in seconds since 1970; SIGNATURE is the HMAC-SHA256 of `USER.EXPIRY` with the key, in lower-case hexadecimal.
//! A token is made by
//!
//! ```sh
//! printf 'ada.1893456000' | openssl dgst -sha256 -hmac "$(cat token.key)"
//! ```

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use hmac::{Hmac, KeyInit, Mac};
use maitred_module::{Config, Module, Outcome, Request, Response, module};
use sha2::Sha256;

/// Bytes of the key. A shorter one could be guessed.
const KEY_BYTES_MIN: usize = 32;
/// Bytes of a user's name.
const USER_BYTES_MAX: usize = 64;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    key: PathBuf,
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let path = config.parse::<Settings>()?.key;
    let key = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let key = key.trim_ascii_end();
    if key.len() < KEY_BYTES_MIN {
        return Err(format!("{}: the key has less than {KEY_BYTES_MIN} bytes", path.display()));
    }
    // With the key worked in, once: a request begins with a copy of this.
    let keyed = Hmac::<Sha256>::new_from_slice(key).map_err(|error| error.to_string())?;
    Ok(Module::new().on_request(move |request| admit(request, &keyed)))
}

fn admit(mut request: Request<'_>, keyed: &Hmac<Sha256>) -> Outcome {
    let now = UNIX_EPOCH.elapsed().map_or(u64::MAX, |since| since.as_secs());
    let Some(user) = token(&request).and_then(|token| user(token, keyed, now)) else {
        return request.answer(&Response::text(b"a valid token is needed\n").with_status(403));
    };
    if !request.set_field("X-User", user) {
        maitred_module::error("token: `request_fields` of the configuration has no X-User");
        return Outcome::FAILED;
    }
    request.pass()
}

/// What the request has as a token.
fn token<'a>(request: &Request<'a>) -> Option<&'a str> {
    let cookies = request.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
    let cookies = cookies.filter_map(|(_, value)| std::str::from_utf8(value).ok());
    let cookies = cookies.flat_map(|value| value.split(';').map(str::trim));
    cookies.chain(request.query().split('&')).find_map(|pair| pair.strip_prefix("token="))
}

/// Whose token it is, if it is valid.
fn user<'a>(token: &'a str, keyed: &Hmac<Sha256>, now: u64) -> Option<&'a str> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (user, expiry) = signed.split_once('.')?;
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if user.is_empty() || user.len() > USER_BYTES_MAX || !user.bytes().all(is_of_name) {
        return None;
    }
    // In a time that does not depend on how much of the signature is right.
    keyed.clone().chain_update(signed).verify_slice(&bytes_of(signature)?).ok()?;
    // Only what was signed is looked at closer.
    let expiry: u64 = expiry.parse().ok()?;
    (now < expiry).then_some(user)
}

/// 32 bytes in hexadecimal.
fn bytes_of(signature: &str) -> Option<[u8; 32]> {
    let digits = signature.as_bytes();
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| match pair.get(at)? {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        *byte = digit(0)? << 4 | digit(1)?;
    }
    Some(bytes)
}
