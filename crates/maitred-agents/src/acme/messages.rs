//! What master and agent say to each other. The socket is `SOCK_SEQPACKET`: one message, one packet, JSON. End of file means
//! that the other side is gone; an agent without a master ends.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use maitred_config::Acme;
use maitred_control::{Challenge, Report};

/// Largest message, in bytes; what is larger is a bug. A challenge with a certificate and its key takes about 4 KiB.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// The start document of the agent: all of its configuration. An agent whose start document would be another is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// How to get certificates.
    pub acme: Acme,
    /// The sites with automatic certificates.
    pub sites: Vec<Site>,
    /// The hosts of sites with certificates on demand: names, `*.name`, and `*` for all that are of no other site.
    pub on_demand: Vec<String>,
    /// Where the files are; absolute.
    pub state: PathBuf,
    /// Whether the server has an address without TLS, which HTTP-01 needs.
    pub http: bool,
    /// Whether the server has an address with TLS, which TLS-ALPN-01 needs.
    pub tls: bool,
    /// `log.level` of the configuration.
    pub log_level: String,
    /// Whether it is bound to a list of system calls.
    pub seccomp: bool,
}

/// A site with an automatic certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The names of the site, in the order of the file; never empty. The first one names its files.
    pub names: Vec<String>,
    /// Whether it is a name on demand, which the service is asked about before each renewal.
    #[serde(default)]
    pub on_demand: bool,
}

impl Site {
    /// What it is called in files and messages.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// From the agent to the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// To be answered from now on; the agent waits for [`ToAgent::InPlace`].
    Challenge(Challenge),
    /// The challenge of this number is over.
    Over(u64),
    /// The file of the site of this name is new.
    Certificate(String),
    /// How a site stands; said at the start, and after each change.
    Report(Report),
    /// A name on demand is to have no certificate: it was refused.
    NameRefused(String),
    /// A name on demand has no certificate as yet, but may be asked for again.
    NameLater(String),
    /// Run the hook that makes records; answered by [`ToAgent::HookDone`] with this number.
    Hook(u64, HookCall),
}

/// What a hook is to do. The program is in the configuration: the agent does not choose it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookCall {
    /// Whether a record is added; otherwise it is removed.
    pub add: bool,
    /// The name of the record, without its last dot.
    pub name: String,
    /// What it says.
    pub text: String,
}

impl HookCall {
    /// What stands before the name of a site in that of its record (RFC 8555 section 8.4).
    pub(crate) const PREFIX: &'static str = "_acme-challenge.";

    /// Whether it has the form of a challenge: the master starts programs with it as arguments.
    pub(crate) fn is_plain(&self) -> bool {
        let label = |label: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            !label.is_empty() && label.bytes().all(plain)
        };
        let encoded = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let name = self.name.strip_prefix(Self::PREFIX);
        // SHA-256 in base64url.
        let text = self.text.len() == 43 && self.text.bytes().all(encoded);
        text && self.name.len() <= 253 && name.is_some_and(|name| name.split('.').all(label))
    }
}

/// From the master to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The worker process answers the challenge of this number.
    InPlace(u64),
    /// A client has asked for this name. The message is answered by [`FromAgent::Certificate`], [`FromAgent::NameRefused`] or
    /// [`FromAgent::NameLater`].
    Wanted(String),
    /// The hook of this number has ended, and why it has failed if it has.
    HookDone(u64, Option<String>),
}

#[cfg(test)]
pub(crate) mod testing {
    use std::time::Duration;

    use super::*;
    use maitred_config::{Authority, ChallengeChoice, Dns, DnsBy, DnsHook, KeyType};

    /// The start document of an agent for one name.
    pub(crate) fn start(name: &str) -> Start {
        let directory = "https://ca.example/dir".into();
        let authority = Authority { directory, profile: None, ca_file: None, external_account: None };
        let acme = Acme {
            authorities: vec![authority],
            fallback_after: 3,
            contact: Vec::new(),
            challenge: ChallengeChoice::Auto,
            dns: Vec::new(),
            key: KeyType::P256,
            on_demand: None,
            user: None,
            retry: Duration::from_secs(1),
        };
        Start {
            acme,
            sites: vec![Site { names: vec![name.to_owned()], on_demand: false }],
            on_demand: Vec::new(),
            state: "/state".into(),
            http: true,
            tls: true,
            log_level: "info".into(),
            seccomp: true,
        }
    }

    /// Records are made by a hook.
    pub(crate) fn hook() -> Dns {
        let command = vec!["/bin/hook".to_owned(), "quiet".to_owned()];
        let by = DnsBy::Hook(DnsHook { command, env_inherit: Vec::new() });
        Dns { domains: Vec::new(), by, check: Vec::new(), timeout: Duration::from_secs(9) }
    }

    #[test]
    fn what_a_hook_is_started_with_has_the_form_of_a_challenge() {
        let text = "a".repeat(43);
        let call = |name: &str, text: &str| HookCall { add: true, name: name.into(), text: text.into() };
        assert!(call("_acme-challenge.a.example", &text).is_plain());
        for name in [
            "a.example",
            "_acme-challenge.",
            "_acme-challenge.a b",
            "_acme-challenge.a..b",
            "_acme-challenge.$x",
        ] {
            assert!(!call(name, &text).is_plain(), "{name}");
        }
        for text in ["", "short", &"a".repeat(44), &"é".repeat(21), &format!("{};", "a".repeat(42))] {
            assert!(!call("_acme-challenge.a.example", text).is_plain(), "{text}");
        }
    }
}
