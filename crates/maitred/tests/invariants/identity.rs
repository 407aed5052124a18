//! Who asks, and by which gate a site finds that out.

use std::sync::Arc;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::ClientConfig;

use crate::support::stage::Authority;

/// The kinds of gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    None,
    Basic,
    Jwt,
    JwtInCookie,
    Forward,
    /// The example `token` of the modules.
    Module,
}

/// The users that all gates know, and no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    None,
    Ann,
    Bob,
}

impl Gate {
    /// The gate's key in the configuration.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Gate::None => "",
            Gate::Basic => "basic_auth",
            Gate::Jwt | Gate::JwtInCookie => "jwt",
            Gate::Forward => "forward_auth",
            Gate::Module => "module",
        }
    }
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::None => "",
            Who::Ann => "ann",
            Who::Bob => "bob",
        }
    }
}

/// The keys and tokens of all gates.
pub(crate) struct Credentials {
    /// A JWK Set.
    pub(crate) keys: String,
    tokens: [String; 2],
    /// Clients that trust the server: without a certificate, and with those of the users.
    clients: [Arc<ClientConfig>; 3],
}

/// The key of the module `token`.
pub(crate) const MODULE_KEY: &str = "a key that is long enough for HMAC";

/// bcrypt of "secret".
const BCRYPT: &str = "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";

impl Credentials {
    pub(crate) fn new(authority: &Authority) -> Credentials {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let keys =
            format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"{x}\"}}]}}");
        let token = |user: &str| {
            let head = URL_SAFE_NO_PAD.encode("{\"alg\":\"EdDSA\",\"kid\":\"k\"}");
            let claims = format!(
                "{{\"iss\":\"i\",\"aud\":\"w\",\"sub\":\"{user}\",\"exp\":4102444800,\"roles\":[\"r-{user}\"]}}"
            );
            let said = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
            let signature = URL_SAFE_NO_PAD.encode(pair.sign(said.as_bytes()).as_ref());
            format!("{said}.{signature}")
        };
        let client = |who: Who| {
            let made = authority.sign(&[who.name()], &rcgen::PKCS_ECDSA_P256_SHA256);
            authority.client_of(rustls::ALL_VERSIONS, Some(&made))
        };
        let clients = [authority.client(), client(Who::Ann), client(Who::Bob)];
        Credentials { keys, tokens: [token("ann"), token("bob")], clients }
    }

    /// A client that shows this user's certificate.
    pub(crate) fn client(&self, who: Who) -> &Arc<ClientConfig> {
        &self.clients[who as usize]
    }

    /// Of `users_file`.
    pub(crate) fn users() -> String {
        format!("ann:{BCRYPT}\nbob:{BCRYPT}\n")
    }

    /// The fields by which a gate knows the user. Cookies are to be put together with others.
    pub(crate) fn of(&self, gate: Gate, who: Who) -> Vec<(&'static str, String)> {
        let token = || &self.tokens[usize::from(who == Who::Bob)];
        let name = who.name();
        match gate {
            _ if who == Who::None => Vec::new(),
            Gate::None => Vec::new(),
            Gate::Basic => {
                vec![("authorization", format!("Basic {}", STANDARD.encode(format!("{name}:secret"))))]
            }
            Gate::Jwt => vec![("authorization", format!("Bearer {}", token()))],
            Gate::JwtInCookie => vec![("cookie", format!("token={}", token()))],
            Gate::Forward => vec![("cookie", format!("session={name}"))],
            Gate::Module => vec![("cookie", format!("token={}", module_token(name)))],
        }
    }
}

/// What the module `token` knows a user by.
fn module_token(user: &str) -> String {
    let said = format!("{user}.4102444800");
    let key = hmac::Key::new(hmac::HMAC_SHA256, MODULE_KEY.as_bytes());
    let signature: String =
        hmac::sign(&key, said.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{said}.{signature}")
}
