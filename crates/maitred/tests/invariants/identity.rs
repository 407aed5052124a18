//! Who asks, and by which gate a site finds that out.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// The kinds of gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    None,
    Basic,
    Jwt,
    JwtInCookie,
    Forward,
}

/// The users that all gates know, and no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    None,
    Ann,
    Bob,
}

impl Gate {
    /// Its key in the configuration.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Gate::None => "",
            Gate::Basic => "basic_auth",
            Gate::Jwt | Gate::JwtInCookie => "jwt",
            Gate::Forward => "forward_auth",
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
}

/// bcrypt of "secret".
const BCRYPT: &str = "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";

impl Credentials {
    pub(crate) fn new() -> Credentials {
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
        Credentials { keys, tokens: [token("ann"), token("bob")] }
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
        }
    }
}
