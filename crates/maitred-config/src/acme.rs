//! `[acme]`: automatic certificates.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::environment;
use super::identity::Identity;
use super::keys::{Default, Key, Kind, Table};
use super::meaning::{Config, HostPattern, Site};

/// Let's Encrypt.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Names of one certificate; what common authorities take at most.
pub(crate) const NAMES_MAX: usize = 100;

/// `[acme]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acme {
    /// The authorities, in the order in which they are tried; never empty. The first one is `[acme]` itself, the others are
    /// `fallback`.
    pub authorities: Vec<Authority>,
    /// `fallback_after`: failures in a row after which the next one is tried.
    pub fallback_after: u32,
    /// `contact`: e-mail addresses.
    pub contact: Vec<String>,
    /// `challenge`
    pub challenge: ChallengeChoice,
    /// `dns`: how records are made for DNS-01; the first one that covers a name is for it.
    pub dns: Vec<Dns>,
    /// `key`
    pub key: KeyType,
    /// `on_demand`: for sites with `acme = "on-demand"`.
    pub on_demand: Option<OnDemand>,
    /// `user`: the account of the process for certificates; filled in if the file does not name it, `None` is the master's
    /// account.
    pub user: Option<Identity>,
    /// `retry`: the delay after a first refusal.
    pub retry: Duration,
}

/// `on_demand = { … }`: certificates for names that clients ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnDemand {
    /// `ask`: an `http` URL.
    pub ask: String,
    /// `orders_per_minute_max`
    pub orders_per_minute_max: u32,
    /// `names_max`
    pub names_max: u32,
    /// `refused_time`: how long a name that was refused stays so.
    pub refused_time: Duration,
    /// `wait_timeout`: how long a handshake waits for a certificate.
    pub wait_timeout: Duration,
    /// `waiting_max`: how many do, in one worker process.
    pub waiting_max: u32,
}

impl Config {
    /// How many names may have certificates on demand; `None` if no site has those.
    pub fn on_demand_names_max(&self) -> Option<usize> {
        let on_demand = self.acme.as_ref()?.on_demand.as_ref()?;
        self.sites.iter().any(|site| site.on_demand).then_some(on_demand.names_max as usize)
    }

    /// Whether this name, in lower case, has a certificate on demand: by the site that it belongs to, which is one of the exact
    /// name, of the longest `*.name`, or one without hosts.
    pub fn is_on_demand(&self, name: &str) -> bool {
        let exact = |site: &&Site| {
            site.hosts.iter().any(|host| matches!(host, HostPattern::Exact(known) if known == name))
        };
        let suffix = |site: &Site| {
            let lengths = site.hosts.iter().filter_map(|host| match host {
                HostPattern::Suffix(suffix) if name.ends_with(suffix.as_str()) => Some(suffix.len()),
                _ => None,
            });
            lengths.max()
        };
        let longest = || {
            self.sites.iter().filter_map(|site| Some((suffix(site)?, site))).max_by_key(|(length, _)| *length)
        };
        // Several sites have the same name where they answer at different listeners.
        let mut named = self.sites.iter().filter(exact).peekable();
        if named.peek().is_some() {
            return named.any(|site| site.on_demand);
        }
        match longest() {
            Some((_, site)) => site.on_demand,
            None => self.sites.iter().any(|site| site.hosts.is_empty() && site.on_demand),
        }
    }
}

/// An authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// `directory`: an `https` URL.
    pub directory: String,
    /// `profile`
    pub profile: Option<String>,
    /// `ca_file`: the certificates that the authority's own certificate is checked with; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// `external_account`
    pub external_account: Option<ExternalAccount>,
}

/// Where the key and the certificates of a site are in the state directory, if there are any yet. `*.example.com` is
/// `_.example.com.pem`: a star in a path asks for trouble.
pub fn certificate_path(state: &Path, site: &str) -> PathBuf {
    let name = match site.strip_prefix('*') {
        Some(rest) => format!("_{rest}.pem"),
        None => format!("{site}.pem"),
    };
    state.join("certificates").join(name)
}

impl Acme {
    /// What makes records for this name, with or without `*.` before it.
    pub fn dns_for(&self, name: &str) -> Option<&Dns> {
        let name = name.strip_prefix("*.").unwrap_or(name);
        self.dns.iter().find(|dns| dns.covers(name))
    }
}

/// `[[acme.dns]]`: how the record of a challenge is made (RFC 8555 section 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// `domains`: the names that it is for, with all below them, in lower case; empty is all names.
    pub domains: Vec<String>,
    /// What makes it.
    pub by: DnsBy,
    /// `check`: the name servers that have to show it before the authority is asked to look.
    pub check: Vec<SocketAddr>,
    /// `timeout`: how long making it, and then waiting for it, may take.
    pub timeout: Duration,
}

impl Dns {
    fn covers(&self, name: &str) -> bool {
        let within = |domain: &String| match name.strip_suffix(domain.as_str()) {
            Some(before) => before.is_empty() || before.ends_with('.'),
            None => false,
        };
        self.domains.is_empty() || self.domains.iter().any(within)
    }
}

/// What makes records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DnsBy {
    /// `server` and what belongs to it: updates of RFC 2136.
    Update(DnsUpdate),
    /// `hook`: a program.
    Hook(DnsHook),
}

/// A program that makes and removes records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsHook {
    /// `hook`: the program with its arguments; never empty.
    pub command: Vec<String>,
    /// `env_inherit`, as [`crate::Pool::env_inherit`].
    pub env_inherit: Vec<String>,
}

/// Updates of RFC 2136, signed as RFC 8945 says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsUpdate {
    /// `server`
    pub server: SocketAddr,
    /// `zone`: the zone's name, without its last dot; `None` to ask the server.
    pub zone: Option<String>,
    /// `key_file`: absolute.
    pub key_file: PathBuf,
    /// `key_name`: the key's name; `None` if the file has it.
    pub key_name: Option<String>,
    /// `algorithm`, unless the file has another one.
    pub algorithm: TsigAlgorithm,
    /// `ttl`, in seconds.
    pub ttl: u32,
}

/// `algorithm = "hmac-sha256" | "hmac-sha384" | "hmac-sha512"`; what is older is not to be used (RFC 8945 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of algorithms")]
pub enum TsigAlgorithm {
    HmacSha256,
    HmacSha384,
    HmacSha512,
}

impl TsigAlgorithm {
    /// The names of the algorithms in configurations and key files.
    pub const NAMES: &'static [&'static str] = &["hmac-sha256", "hmac-sha384", "hmac-sha512"];

    /// The one of this name.
    pub fn named(name: &str) -> Option<TsigAlgorithm> {
        match name {
            "hmac-sha256" => Some(TsigAlgorithm::HmacSha256),
            "hmac-sha384" => Some(TsigAlgorithm::HmacSha384),
            "hmac-sha512" => Some(TsigAlgorithm::HmacSha512),
            _ => None,
        }
    }
}

/// `challenge = "auto" | "http-01" | "tls-alpn-01" | "dns-01"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeChoice {
    /// What the addresses and `dns` allow; after a failure, the next one.
    Auto,
    /// RFC 8555 section 8.3.
    Http01,
    /// RFC 8737.
    TlsAlpn01,
    /// RFC 8555 section 8.4.
    Dns01,
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
pub(crate) const ACME: Table = Table {
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
            Kind::Choice(&["auto", "http-01", "tls-alpn-01", "dns-01"]),
            Default::Text("auto"),
            "How the CA validates that you control the names: HTTP-01 connects to port 80 of each name, TLS-ALPN-01 to port \
             443, DNS-01 looks for a record in the DNS, which `dns` makes. `\"auto\"` starts with the first one that the \
             addresses of the server and `dns` allow, and uses the next one after a failure. Wildcards (`*.example.com`) are \
             always validated by DNS-01.",
        ),
        Key::new(
            "dns",
            Kind::Sections(&DNS),
            Default::Absent("no DNS-01"),
            "How the records for DNS-01 are made; the first one that covers a name is for it.",
        ),
        Key::new(
            "key",
            Kind::Choice(&["p256", "p384", "rsa2048"]),
            Default::Text("p256"),
            "The type of the certificates' keys: ECDSA, or RSA for clients from before 2010. Each certificate has a new key.",
        ),
        PROFILE,
        CA_FILE,
        EXTERNAL_ACCOUNT_KEY,
        Key::new(
            "fallback",
            Kind::Sections(&FALLBACK),
            Default::Absent("none"),
            "Other CAs, which are tried in this order when orders fail.",
        ),
        Key::new(
            "fallback_after",
            Kind::Whole { min: 1, max: 100 },
            Default::Whole(3),
            "After so many failures in a row, a site's orders go to the next CA; after the last one, to the first again.",
        ),
        Key::new(
            "on_demand",
            Kind::Section(&ON_DEMAND),
            Default::Absent("no certificates on demand"),
            "For sites with `acme = \"on-demand\"`: which names get certificates.",
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

/// `[[acme.dns]]`
pub(crate) const DNS: Table = Table {
    title: "[[acme.dns]]",
    doc: "How the TXT records for DNS-01 are made and removed: either by updates to a name server (`server`, RFC 2136), which are \
          signed with a shared key (TSIG, RFC 8945), or by a program (`hook`). See [Wildcards](acme.md#wildcards-and-dns-01).",
    example: "[acme]\nagree = true\n\n[[acme.dns]]\ndomains = [\"example.com\"]\nserver = \"192.0.2.53\"\n\
              key_file = \"/etc/maitred/update.key\"\n\n[[acme.dns]]\nhook = [\"/usr/local/bin/dns-hook\"]\n",
    keys: &[
        Key::new(
            "domains",
            Kind::Texts("names"),
            Default::Absent("all names"),
            "The names that it is for: these, and all below them.",
        ),
        Key::new(
            "server",
            Kind::Text("an IP address, with `:port` unless it is 53"),
            Default::Absent("no updates"),
            "The primary name server of the zone. It is spoken to over TCP.",
        ),
        Key::new(
            "key_file",
            Kind::Text("a file"),
            Default::Absent("none"),
            "The key of updates; required with `server`. Either the `key \"…\" { … };` clause that `tsig-keygen` writes, or the \
             secret in base64 and nothing else. It is read by the process for certificates when it is needed.",
        ),
        Key::new(
            "key_name",
            Kind::Text("a name"),
            Default::Absent("the one in `key_file`"),
            "The name of the key, if `key_file` holds a secret alone.",
        ),
        Key::new(
            "algorithm",
            Kind::Choice(TsigAlgorithm::NAMES),
            Default::Text("hmac-sha256"),
            "The algorithm of the key, if `key_file` holds a secret alone.",
        ),
        Key::new(
            "zone",
            Kind::Text("a name"),
            Default::Absent("the server is asked"),
            "The zone that the records are in.",
        ),
        Key::new(
            "ttl",
            Kind::Whole { min: 0, max: 86_400 },
            Default::Whole(60),
            "How long resolvers may keep a record, in seconds.",
        ),
        Key::new(
            "hook",
            Kind::Texts("a program and its arguments"),
            Default::Absent("none"),
            "A program that makes and removes records. It is started without a shell, with three more arguments: `add` or \
             `remove`, the name of the record, and its text.",
        ),
        environment::KEY,
        Key::new(
            "check",
            Kind::Texts("IP addresses, with `:port` unless it is 53"),
            Default::Absent("`server`; none with `hook`"),
            "The name servers that have to show a record before the CA is asked to look for it.",
        ),
        Key::new(
            "timeout",
            Kind::Time { min: Duration::from_secs(1), max: Duration::from_secs(5 * 60) },
            Default::Time(Duration::from_secs(2 * 60)),
            "How long a record may take to be made, and then to be shown by all of `check`. A hook that takes longer is killed.",
        ),
    ],
};

const PROFILE: Key = Key::new(
    "profile",
    Kind::Text("a name"),
    Default::Absent("the CA's default"),
    "A certificate profile of the CA, such as `\"shortlived\"`.",
);
const CA_FILE: Key = Key::new(
    "ca_file",
    Kind::Text("a file"),
    Default::Absent("the system's CA certificates"),
    "For a private CA: the root certificates, in PEM, of its own HTTPS server.",
);
const EXTERNAL_ACCOUNT_KEY: Key = Key::new(
    "external_account",
    Kind::Section(&EXTERNAL_ACCOUNT),
    Default::Absent("none"),
    "An existing account at the CA, if the CA requires one.",
);

/// `[[acme.fallback]]`
pub(crate) const FALLBACK: Table = Table {
    title: "[[acme.fallback]]",
    doc: "Another CA, for sites whose orders fail at those before it. It has an account of its own; the terms of service that \
          `agree` is about are its, too. See [Several authorities](acme.md#several-authorities).",
    example: "[acme]\nagree = true\n\n[[acme.fallback]]\ndirectory = \"https://acme.example.net/directory\"\n\
              external_account = { key_id = \"kid-1\", hmac_key_file = \"eab.key\" }\n",
    keys: &[
        Key::new("directory", Kind::Text("an `https` URL"), Default::Required, "The CA's directory."),
        PROFILE,
        CA_FILE,
        EXTERNAL_ACCOUNT_KEY,
    ],
};

/// `on_demand`
pub(crate) const ON_DEMAND: Table = Table {
    title: "on_demand",
    doc: "Certificates for names that stand in no file, such as the domains of customers: one is ordered when the first client asks \
          for the name in its handshake, and a service of yours allows it. See [On demand](acme.md#on-demand).",
    example: "[acme]\nagree = true\non_demand = { ask = \"http://127.0.0.1:9000/allowed\" }\n",
    keys: &[
        Key::new(
            "ask",
            Kind::Text("an `http` URL"),
            Default::Required,
            "The service. It gets `GET URL?domain=NAME` before the first order of a name, and before each renewal; a status of 2xx \
             allows it.",
        ),
        Key::new(
            "orders_per_minute_max",
            Kind::Whole { min: 1, max: 1000 },
            Default::Whole(10),
            "How many new names a minute are ordered for; so many may come at once.",
        ),
        Key::new(
            "names_max",
            Kind::Whole { min: 1, max: 10_000 },
            Default::Whole(1000),
            "How many names have certificates on demand at a time. Each takes about 4 KiB in each worker process.",
        ),
        Key::new(
            "refused_time",
            Kind::Time { min: Duration::from_secs(1), max: Duration::from_secs(24 * 60 * 60) },
            Default::Time(Duration::from_secs(5 * 60)),
            "How long a name that the service has refused stays refused without another question.",
        ),
        Key::new(
            "wait_timeout",
            Kind::Time { min: Duration::from_millis(1), max: Duration::from_secs(5 * 60) },
            Default::Time(Duration::from_secs(30)),
            "How long a handshake waits for its certificate. Then it fails, and so it does at once when it is known that there will be \
             none.",
        ),
        Key::new(
            "waiting_max",
            Kind::Whole { min: 0, max: 100_000 },
            Default::Whole(256),
            "How many handshakes of a worker process wait at a time; further ones fail, and succeed when the certificate is there. Each \
             keeps what its client has said, up to 100 KiB and usually 2. 0: none waits.",
        ),
    ],
};

/// `external_account`
pub(crate) const EXTERNAL_ACCOUNT: Table = Table {
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
