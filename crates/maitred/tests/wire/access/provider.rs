//! A provider of OpenID Connect (Core 1.0) for tests: one user, who agrees to everything at once. The provider checks what the
//! relying party sends: client, redirect, code, and PKCE (RFC 7636).

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// What the relying party is known by.
pub(crate) const CLIENT: (&str, &str) = ("www", "a secret of the test");
/// Who signs in.
pub(crate) const USER: (&str, &str) = ("ann", "ann@example.com");

/// A provider that runs until it is dropped.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    issuer: String,
    redirect: String,
    keys: EcdsaKeyPair,
    /// Of each code: nonce and challenge.
    codes: Mutex<HashMap<String, (String, String)>>,
    refreshed: AtomicBool,
    over: AtomicBool,
}

impl Provider {
    /// `redirect`: where clients may be sent back to.
    pub(crate) fn start(redirect: &str) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            issuer: format!("http://{address}"),
            redirect: redirect.to_owned(),
            keys: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            codes: Mutex::default(),
            refreshed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&shared);
                std::thread::spawn(move || stream.and_then(|stream| state.serve(stream)));
            }
        });
        Provider { address, state }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.state.issuer
    }

    /// Whether a session was renewed.
    pub(crate) fn has_refreshed(&self) -> bool {
        self.state.refreshed.load(Ordering::SeqCst)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// A request: target, fields with their names in lower case, content.
struct Asked {
    path: String,
    query: HashMap<String, String>,
    fields: HashMap<String, String>,
    form: HashMap<String, String>,
}

/// Names and values of a query or a form.
fn pairs(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| String::from_utf8(maitred_http::uri::decode_parameter(text)).unwrap();
    let items = text.split('&').filter_map(|item| item.split_once('='));
    items.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

/// The next request of a connection; `None` at its end.
fn next(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.split(' ').nth(1).unwrap().to_owned();
    let mut fields = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            None => break,
            Some((name, value)) => fields.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
        };
    }
    let length = fields.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut content = vec![0; length];
    reader.read_exact(&mut content)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let form = pairs(std::str::from_utf8(&content).unwrap());
    Ok(Some(Asked { path: path.to_owned(), query: pairs(query), fields, form }))
}

impl State {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(asked) = next(&mut reader)? {
            let (status, more, content) = self.answer(&asked);
            let length = content.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{content}"
            )?;
        }
        Ok(())
    }

    /// Status, further lines, content.
    fn answer(&self, asked: &Asked) -> (u16, String, String) {
        let issuer = &self.issuer;
        let said = |value: Value| (200, String::new(), value.to_string());
        match asked.path.as_str() {
            "/.well-known/openid-configuration" => said(json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "jwks_uri": format!("{issuer}/keys"),
                "userinfo_endpoint": format!("{issuer}/userinfo"),
                "id_token_signing_alg_values_supported": ["ES256"],
                "code_challenge_methods_supported": ["S256"],
            })),
            "/keys" => {
                let (x, y) = self.keys.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
                said(
                    json!({ "keys": [{ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "a", "x": x, "y": y }] }),
                )
            }
            "/authorize" => self.authorize(&asked.query),
            "/token" => {
                self.token(asked).map_or((400, String::new(), "{\"error\":\"invalid_grant\"}".into()), said)
            }
            "/userinfo" => said(json!({ "sub": USER.0, "email": USER.1, "email_verified": true })),
            _ => (404, String::new(), "{}".to_owned()),
        }
    }

    /// The client is sent back with a code.
    fn authorize(&self, query: &HashMap<String, String>) -> (u16, String, String) {
        let of = |name: &str| query.get(name).cloned().unwrap_or_default();
        if (of("client_id"), of("redirect_uri")) != (CLIENT.0.to_owned(), self.redirect.clone())
            || of("response_type") != "code"
            || of("code_challenge_method") != "S256"
        {
            return (400, String::new(), format!("{query:?}"));
        }
        let mut codes = self.codes.lock().unwrap();
        let code = format!("code-{}", codes.len());
        codes.insert(code.clone(), (of("nonce"), of("code_challenge")));
        let mut state = Vec::new();
        maitred_http::uri::encode_component(of("state").as_bytes(), &mut state);
        let state = String::from_utf8(state).unwrap();
        (302, format!("Location: {}?code={code}&state={state}\r\n", self.redirect), String::new())
    }

    /// Tokens for a code, or for a token that renews.
    fn token(&self, asked: &Asked) -> Option<Value> {
        let of = |name: &str| asked.form.get(name).map(String::as_str);
        let by_field = format!("Basic {}", STANDARD.encode(format!("{}:{}", CLIENT.0, CLIENT.1)));
        let by_form = (of("client_id"), of("client_secret")) == (Some(CLIENT.0), Some(CLIENT.1));
        let encoded =
            format!("Basic {}", STANDARD.encode(format!("{}:{}", CLIENT.0, CLIENT.1.replace(' ', "+"))));
        let field = asked.fields.get("authorization");
        if !by_form && field != Some(&by_field) && field != Some(&encoded) {
            return None;
        }
        let nonce = match of("grant_type")? {
            "refresh_token" if of("refresh_token") == Some("renews") => {
                self.refreshed.store(true, Ordering::SeqCst);
                None
            }
            "authorization_code" if of("redirect_uri") == Some(&self.redirect) => {
                let (nonce, challenge) = self.codes.lock().unwrap().remove(of("code")?)?;
                let proof = URL_SAFE_NO_PAD.encode(digest(&SHA256, of("code_verifier")?.as_bytes()));
                (proof == challenge).then_some(Some(nonce))?
            }
            _ => return None,
        };
        let id = self.signed(nonce);
        Some(
            json!({ "access_token": "opens", "refresh_token": "renews", "token_type": "Bearer", "expires_in": 3600, "id_token": id }),
        )
    }

    fn signed(&self, nonce: Option<String>) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let encoded = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = encoded(json!({ "alg": "ES256", "kid": "a", "typ": "JWT" }));
        let claims = encoded(json!({
            "iss": self.issuer, "aud": CLIENT.0, "sub": USER.0, "email": USER.1, "email_verified": true,
            "groups": ["staff"], "iat": now, "exp": now + 3600, "nonce": nonce,
        }));
        let text = format!("{head}.{claims}");
        let signature = self.keys.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
