//! `[acme]`: automatic certificates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::meaning::Identity;

/// Let's Encrypt.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Names of one certificate; what common authorities take at most.
pub const NAMES_MAX: usize = 100;

/// `[acme]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acme {
    /// `directory`: an `https` URL.
    pub directory: String,
    /// `contact`: e-mail addresses.
    pub contact: Vec<String>,
    /// `challenge`
    pub challenge: ChallengeChoice,
    /// `key`
    pub key: KeyType,
    /// `profile`
    pub profile: Option<String>,
    /// `ca_file`: the certificates that the authority's own certificate is checked with; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// `external_account`
    pub external_account: Option<ExternalAccount>,
    /// `user`: the account of the process for certificates; filled in if the file does not name it, `None` is the master's
    /// account.
    pub user: Option<Identity>,
    /// `retry`: the delay after a first refusal.
    pub retry: Duration,
}

/// Where the key and the certificates of a site are in the state directory, if there are any yet.
pub fn certificate_path(state: &Path, site: &str) -> PathBuf {
    state.join("certificates").join(format!("{site}.pem"))
}

/// `challenge = "auto" | "http-01" | "tls-alpn-01"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeChoice {
    /// What the addresses allow; after a failure, the other one.
    Auto,
    /// RFC 8555 section 8.3.
    Http01,
    /// RFC 8737.
    TlsAlpn01,
}

/// `key = "p256" | "p384" | "rsa2048"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of keys")]
pub enum KeyType {
    P256,
    P384,
    Rsa2048,
}

/// `external_account = { key_id = "…", hmac_key_file = "…" }` (RFC 8555 section 7.3.4)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAccount {
    /// `key_id`
    pub key_id: String,
    /// `hmac_key_file`: absolute.
    pub hmac_key_file: PathBuf,
}

/// `[acme]`
pub const ACME: Table = Table {
    title: "[acme]",
    doc: "Certificates that Maitred obtains and renews by itself, for sites with `acme = true`, from a certificate authority \
          (CA) with ACME (RFC 8555). See [Automatic certificates](acme.md).",
    example: "[acme]\nagree = true\ncontact = [\"admin@example.com\"]\n\n[[site]]\nhosts = [\"example.com\", \
              \"www.example.com\"]\nacme = true\nroot = \"/srv/www\"\n",
    keys: &[
        Key::new(
            "agree",
            Kind::Flag,
            Default::Flag(false),
            "Your agreement to the CA's terms of service. Without `true` there are no certificates.",
        ),
        Key::new(
            "contact",
            Kind::Texts("e-mail addresses"),
            Default::Texts(&[]),
            "Addresses at which the CA may contact you about the account.",
        ),
        Key::new(
            "directory",
            Kind::Text("an `https` URL"),
            Default::Text(DIRECTORY),
            "The CA's directory. The default is Let's Encrypt; its staging environment is \
             `\"https://acme-staging-v02.api.letsencrypt.org/directory\"`.",
        ),
        Key::new(
            "challenge",
            Kind::Choice(&["auto", "http-01", "tls-alpn-01"]),
            Default::Text("auto"),
            "How the CA validates that you control the names: HTTP-01 connects to port 80 of each name, TLS-ALPN-01 to port \
             443. `\"auto\"` starts with the one for which the server has an address, and uses the other one after a \
             failure.",
        ),
        Key::new(
            "key",
            Kind::Choice(&["p256", "p384", "rsa2048"]),
            Default::Text("p256"),
            "The type of the certificates' keys: ECDSA, or RSA for clients from before 2010. Each certificate has a new key.",
        ),
        Key::new(
            "profile",
            Kind::Text("a name"),
            Default::Absent("the CA's default"),
            "A certificate profile of the CA, such as `\"shortlived\"`.",
        ),
        Key::new(
            "ca_file",
            Kind::Text("a file"),
            Default::Absent("the system's CA certificates"),
            "For a private CA: the root certificates, in PEM, of its own HTTPS server.",
        ),
        Key::new(
            "external_account",
            Kind::Section(&EXTERNAL_ACCOUNT),
            Default::Absent("none"),
            "An existing account at the CA, if the CA requires one.",
        ),
        Key::new(
            "user",
            Kind::Text("the name of an account"),
            Default::Absent(
                "`maitred-acme`, if root starts the server and that account exists; otherwise the account that starts the \
                 server",
            ),
            "The account of the process that obtains certificates. It owns `state` of `[server]`, and differs from those of \
             the worker process and of all pools, unless `share_user` is set. Only root can change to another account.",
        ),
        Key::new(
            "retry",
            Kind::Time { min: Duration::from_secs(1), max: Duration::from_secs(60 * 60) },
            Default::Time(Duration::from_secs(2 * 60)),
            "How long to wait after the CA has refused an order; doubled each time, up to 12 h. While the CA cannot be \
             reached, an eighth of it, up to 1 h. A longer `Retry-After` of the CA takes precedence.",
        ),
    ],
};

/// `external_account`
pub const EXTERNAL_ACCOUNT: Table = Table {
    title: "external_account",
    doc: "Binds the ACME account to an existing account at the CA (RFC 8555 section 7.3.4), which provides both values.",
    example: "[acme]\nagree = true\ndirectory = \"https://acme.example.net/directory\"\n\
              external_account = { key_id = \"kid-1\", hmac_key_file = \"eab.key\" }\n",
    keys: &[
        Key::new("key_id", Kind::Text("a text"), Default::Required, "The key identifier."),
        Key::new(
            "hmac_key_file",
            Kind::Text("a file"),
            Default::Required,
            "A file that holds the key in base64url, and nothing else. Only the server should be able to read it.",
        ),
    ],
};
