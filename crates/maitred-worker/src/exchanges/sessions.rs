//! Cookies that name the server of a client (`sticky` of a pool of servers).
//!
//! | the client comes with | goes to | the response |
//! |---|---|---|
//! | a cookie that names a server which takes requests, or drains | that one | as any other |
//! | a cookie whose server has gone, is out, unwell, or full | one by `balance` | sets the cookie anew |
//! | none, or a value of another's making | one by `balance` | sets the cookie |
//!
//! The value is a hash of the server with a key of the pool's: it shows no address, and is the same after a restart.

use maitred_http::fields::FieldLines;
use maitred_http::request::Request;

use super::Exchanges;
use crate::keys::ConnKey;
use crate::origin::Client;
use crate::upstream::server::Session;
use maitred_policy::rewrite::cookie;

impl Exchanges {
    /// What a request says of its server, if its pool has such cookies.
    pub(crate) fn session_of(
        &mut self,
        index: ConnKey,
        pool: u16,
        request: &Request<'_, '_>,
    ) -> Option<Box<Session>> {
        let config = &{ self.shared }.start.config;
        let sticky = config.pools.get(usize::from(pool))?.balancing.sticky.as_ref()?;
        self.refresh_servers(pool);
        let token = cookie(request, &sticky.name).and_then(token_of);
        let list = self.shared.servers(pool)?.list();
        let peer = self.connections[index].peer();
        let secure = Client::of(request, &peer, &config.server.trusted_proxies).https;
        Some(Box::new(Session { server: token.and_then(|token| list.slot_of(token)), secure, cookie: None }))
    }

    /// The cookie for a client whose request goes to this server, unless that is the one it has come with.
    pub(crate) fn name_server(&self, at: (u16, u16), session: &mut Session) {
        session.cookie = None;
        let pool = self.shared.start.config.pools.get(usize::from(at.0));
        let Some(sticky) = pool.and_then(|pool| pool.balancing.sticky.as_ref()) else { return };
        let Some(row) = self.upstreams.row(at).filter(|_| session.server != Some(at.1)) else { return };
        let secure = if session.secure { "; Secure" } else { "" };
        let value = format!("{}={:016x}; Path=/; HttpOnly; SameSite=Lax{secure}", sticky.name, row.token);
        let mut field = FieldLines::default();
        field.push(b"Set-Cookie", value.as_bytes());
        session.cookie = Some(field);
    }
}

/// The value of a cookie: 16 hexadecimal digits in small letters.
fn token_of(value: &[u8]) -> Option<u64> {
    let known = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let text = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.len() == 16 && text.as_bytes().iter().all(known))?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_here_names_a_server() {
        assert_eq!(token_of(b"00000000000000ff"), Some(255));
        for wrong in
            [&b""[..], b"ff", b"00000000000000FF", b"+0000000000000ff", b"00000000000000ff0", b"\xff"]
        {
            assert_eq!(token_of(wrong), None, "{wrong:?}");
        }
    }
}
