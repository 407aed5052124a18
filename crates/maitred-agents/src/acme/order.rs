//! One order, from the first message to the certificate (RFC 8555 section 7.1).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};

use super::certificate;
use super::client::Seen;
use super::dns::{Added, Records};
use super::link::{Link, Placed};
use super::messages::Start;
use super::schedule::{Blame, Failure};
use crate::agents::errors::with_causes;
use maitred_config::{ChallengeChoice, KeyType};
use maitred_control::Answer;

/// How long the authority may take to look, and then to sign.
const POLL: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));
/// How often a request is made again whose nonce was refused, on top of what the library does (RFC 8555 section 6.5).
pub(super) const NONCES_MAX: usize = 8;
/// Longest text about a failure that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// What to order.
pub(crate) struct Job {
    /// The names.
    pub names: Vec<String>,
    /// The type of the new key.
    pub key: KeyType,
    /// The kind of certificate.
    pub profile: Option<String>,
    /// The certificate that this one replaces (RFC 9773 section 5).
    pub replaces: Option<CertificateIdentifier<'static>>,
    /// The challenges that can be answered, the preferred one first.
    pub kinds: Vec<ChallengeType>,
    /// The names for which records can be made.
    pub dns: Vec<String>,
}

/// Why there is no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What the schedule makes of it.
    pub failure: Failure,
    /// In words.
    pub text: String,
}

impl Trouble {
    /// The authority said no, or what it said makes no sense.
    pub(crate) fn refused(text: impl Into<String>) -> Trouble {
        Trouble::new(Blame::Refused, None, text.into())
    }

    /// No answer has come.
    pub(crate) fn unreachable(text: impl Into<String>) -> Trouble {
        Trouble::new(Blame::Unreachable, None, text.into())
    }

    /// What the library reports; `seen` knows of the last exchange.
    pub(crate) fn of(error: &Error, seen: &Seen) -> Trouble {
        let failed = seen.status().is_none_or(|status| status >= 500);
        let (blame, text) = match error {
            Error::Api(problem) => {
                let kind = problem.r#type.as_deref().unwrap_or_default();
                let own = kind.ends_with(":serverInternal") || kind.ends_with(":badNonce") || failed;
                let text = problem.to_string();
                let text = text.strip_prefix("API error: ").unwrap_or(&text).to_owned();
                (if own { Blame::Unreachable } else { Blame::Refused }, text)
            }
            other => (if failed { Blame::Unreachable } else { Blame::Refused }, with_causes(other)),
        };
        Trouble::new(blame, seen.retry_after(), text)
    }

    fn new(blame: Blame, retry_after: Option<Duration>, mut text: String) -> Trouble {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        Trouble { failure: Failure { blame, retry_after }, text }
    }
}

/// How challenges are answered.
pub(crate) struct Ways {
    /// By the worker process.
    pub link: Link,
    /// In the DNS.
    pub records: Records,
}

/// A challenge that is answered until this is dropped.
#[allow(dead_code, reason = "the values are held for their Drop")]
pub(crate) enum Answered {
    /// By the worker process.
    Placed(Placed),
    /// In the DNS.
    Added(Added),
}

/// Which challenges to take: all that can be answered, in the order in which they are tried, which begins with another one after
/// each failure. DNS-01 is among them if any name can be answered by it.
pub(crate) fn kinds(start: &Start, failures: u32) -> Vec<ChallengeType> {
    let mut kinds = match start.acme.challenge {
        ChallengeChoice::Http01 => vec![ChallengeType::Http01],
        ChallengeChoice::TlsAlpn01 => vec![ChallengeType::TlsAlpn01],
        ChallengeChoice::Dns01 => vec![ChallengeType::Dns01],
        ChallengeChoice::Auto => {
            let dns = !start.acme.dns.is_empty();
            let all = [
                (start.http, ChallengeType::Http01),
                (start.tls, ChallengeType::TlsAlpn01),
                (dns, ChallengeType::Dns01),
            ];
            all.into_iter().filter(|(possible, _)| *possible).map(|(_, kind)| kind).collect()
        }
    };
    let count = kinds.len().max(1);
    kinds.rotate_left(failures as usize % count);
    kinds
}

/// The challenge to take for a name, of those that are offered.
fn choose(job: &Job, name: &str, offered: &[instant_acme::Challenge]) -> Result<ChallengeType, String> {
    let is_offered = |kind: &&ChallengeType| offered.iter().any(|one| one.r#type == **kind);
    // A wildcard takes a proof in the DNS, whatever the others of its site have.
    let dns = [ChallengeType::Dns01];
    let kinds = if name.starts_with("*.") { &dns[..] } else { &job.kinds };
    let can = |kind: &&ChallengeType| {
        **kind != ChallengeType::Dns01 || job.dns.iter().any(|covered| covered == name)
    };
    let found = kinds.iter().filter(can).find(is_offered).cloned();
    found.ok_or_else(|| format!("{name}: the authority offers no challenge that can be answered"))
}

/// Whether the request is to be made again, with another nonce.
pub(super) fn is_bad_nonce(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce")
}

/// Makes a request again as long as its nonce is refused.
macro_rules! with_nonce {
    ($request:expr) => {{
        let mut left = $crate::acme::order::NONCES_MAX;
        loop {
            match $request.await {
                Err(error) if $crate::acme::order::is_bad_nonce(&error) && left > 0 => left -= 1,
                outcome => break outcome,
            }
        }
    }};
}
pub(super) use with_nonce;

/// Orders a certificate: key and chain, in PEM, the key first.
///
/// # Errors
/// Why there is none.
pub(crate) async fn obtain(
    account: &Account,
    job: &Job,
    ways: &Ways,
    seen: &Seen,
) -> Result<String, Trouble> {
    let trouble = |error: Error| Trouble::of(&error, seen);
    let mut order = begin(account, job).await.map_err(trouble)?;
    let challenges = prove(&mut order, job, ways, seen).await?;
    let status = with_nonce!(order.poll_ready(&POLL));
    if !matches!(status, Ok(OrderStatus::Ready)) {
        return Err(not_ready(&mut order, status, seen).await);
    }
    drop(challenges);
    let request = certificate::request(&job.names, job.key).map_err(Trouble::refused)?;
    with_nonce!(order.finalize_csr(&request.request)).map_err(trouble)?;
    let chain = with_nonce!(order.poll_certificate(&POLL)).map_err(trouble)?;
    check(job, &request.key, &chain)
        .map_err(|why| Trouble::refused(format!("the certificate is wrong: {why}")))?;
    Ok(format!("{}{}", request.key, chain))
}

/// What an authority makes of `replaces` must not keep a certificate from being renewed.
async fn begin(account: &Account, job: &Job) -> Result<Order, Error> {
    let names: Vec<Identifier> = job.names.iter().cloned().map(Identifier::Dns).collect();
    let new = || {
        let order = NewOrder::new(&names);
        job.profile.as_deref().into_iter().fold(order, NewOrder::profile)
    };
    if let Some(replaces) = &job.replaces {
        let order = new().replaces(replaces.clone());
        match with_nonce!(account.new_order(&order)) {
            Err(Error::Api(problem)) if problem.status == Some(429) => return Err(Error::Api(problem)),
            Err(error) => tracing::debug!("an order that says what it replaces was refused: {error}"),
            order => return order,
        }
    }
    let order = new();
    with_nonce!(account.new_order(&order))
}

/// A challenge that is to be answered.
struct Wanted {
    name: String,
    kind: ChallengeType,
    answer: Proof,
}

/// What answers it.
enum Proof {
    Here(Answer),
    Record(String),
}

/// Answers a challenge for each name that is not proved yet. The challenges stay answered until what comes back is dropped.
async fn prove(order: &mut Order, job: &Job, ways: &Ways, seen: &Seen) -> Result<Vec<Answered>, Trouble> {
    let trouble = |error: Error| Trouble::of(&error, seen);
    let mut answered = Vec::new();
    let mut chosen = Vec::new();
    for Wanted { name, kind, answer } in wanted(order, job, seen).await? {
        answered.push(match answer {
            Proof::Here(answer) => {
                Answered::Placed(ways.link.place(&name, answer).await.map_err(Trouble::unreachable)?)
            }
            // An unreachable name server says nothing about the authority, which had an order for nothing: the next one waits
            // as after a refusal.
            Proof::Record(text) => {
                Answered::Added(ways.records.add(&name, text).await.map_err(Trouble::refused)?)
            }
        });
        chosen.push((name, kind));
    }
    // Only now, when all are there: one name may have two records, and a name server may show them at the same time.
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.map_err(trouble)?;
        let name = authorization.identifier().to_string();
        let Some((_, kind)) = chosen.iter().find(|(chosen, _)| *chosen == name) else { continue };
        let Some(mut challenge) = authorization.challenge(kind.clone()) else { continue };
        with_nonce!(challenge.set_ready()).map_err(trouble)?;
    }
    Ok(answered)
}

/// What has to be answered, for the names that are not proved yet.
async fn wanted(order: &mut Order, job: &Job, seen: &Seen) -> Result<Vec<Wanted>, Trouble> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut left = NONCES_MAX;
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = match next {
            Ok(authorization) => authorization,
            Err(error) if is_bad_nonce(&error) && left > 0 => {
                // What is known already is not asked for again.
                left -= 1;
                authorizations = order.authorizations();
                continue;
            }
            Err(error) => return Err(Trouble::of(&error, seen)),
        };
        let name = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(Trouble::refused(format!("{name}: the authorization is {other:?}"))),
        }
        if wanted.iter().any(|one| one.name == name) {
            continue;
        }
        let kind = choose(job, &name, &authorization.challenges).map_err(Trouble::refused)?;
        let Some(challenge) = authorization.challenge(kind.clone()) else { continue };
        let answer = answer(&challenge, &name).map_err(Trouble::refused)?;
        wanted.push(Wanted { name, kind, answer });
    }
    Ok(wanted)
}

fn answer(challenge: &instant_acme::ChallengeHandle<'_>, name: &str) -> Result<Proof, String> {
    let key_authorization = challenge.key_authorization();
    Ok(match challenge.r#type {
        ChallengeType::TlsAlpn01 => {
            let pair = certificate::for_challenge(name, key_authorization.digest().as_ref())?;
            Proof::Here(Answer::TlsAlpn(pair))
        }
        ChallengeType::Dns01 => Proof::Record(key_authorization.dns_value()),
        _ => Proof::Here(Answer::Http {
            token: challenge.token.clone(),
            key_authorization: key_authorization.as_str().to_owned(),
        }),
    })
}

/// Why an order did not become ready: what the authority says about each name tells more than what it says about the order.
async fn not_ready(order: &mut Order, status: Result<OrderStatus, Error>, seen: &Seen) -> Trouble {
    let trouble = match status {
        Err(error) => Trouble::of(&error, seen),
        Ok(status) => Trouble::refused(format!("the order is {status:?}")),
    };
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if with_nonce!(authorization.refresh()).is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        for problem in authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref()) {
            let detail = problem.detail.as_deref().unwrap_or("no reason given");
            reasons.push(format!("{name}: {detail}"));
        }
    }
    if reasons.is_empty() {
        return trouble;
    }
    Trouble::new(trouble.failure.blame, trouble.failure.retry_after, reasons.join("; "))
}

/// What an authority sends is used only if it is what was ordered.
fn check(job: &Job, key: &str, chain: &str) -> Result<(), String> {
    let facts = certificate::facts(chain)?;
    if let Some(missing) = job.names.iter().find(|name| !facts.names.contains(name)) {
        return Err(format!("it is not for {missing}"));
    }
    match certificate::is_key_of(key, chain)? {
        true => Ok(()),
        false => Err("it is not for the key that was sent".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_alternates_where_it_can() {
        use ChallengeType::{Dns01, Http01, TlsAlpn01};
        let with = |challenge, http, tls, dns: &[maitred_config::Dns], failures| {
            let mut start = crate::acme::messages::testing::start("a.example");
            (start.http, start.tls) = (http, tls);
            (start.acme.challenge, start.acme.dns) = (challenge, dns.to_vec());
            kinds(&start, failures)
        };
        let auto = |http, tls, failures| with(ChallengeChoice::Auto, http, tls, &[], failures);
        assert_eq!(auto(true, true, 0), [Http01, TlsAlpn01]);
        assert_eq!(auto(true, true, 1), [TlsAlpn01, Http01]);
        assert_eq!(auto(true, true, 2), [Http01, TlsAlpn01]);
        assert_eq!(auto(false, true, 0), [TlsAlpn01]);
        assert_eq!(auto(true, false, 1), [Http01]);
        assert_eq!(auto(false, false, 1), []);
        assert_eq!(with(ChallengeChoice::TlsAlpn01, true, true, &[], 1), [TlsAlpn01]);
        let dns = [crate::acme::messages::testing::hook()];
        assert_eq!(with(ChallengeChoice::Auto, true, true, &dns, 2), [Dns01, Http01, TlsAlpn01]);
        assert_eq!(with(ChallengeChoice::Dns01, true, true, &dns, 1), [Dns01]);
    }

    #[test]
    fn a_wildcard_is_proved_in_the_dns_and_others_as_they_can_be() {
        use ChallengeType::{Dns01, Http01, TlsAlpn01};
        let offered = ["http-01", "dns-01", "tls-alpn-01"].map(|kind| {
            let text =
                format!("{{\"type\":\"{kind}\",\"url\":\"u\",\"token\":\"t\",\"status\":\"pending\"}}");
            serde_json::from_str::<instant_acme::Challenge>(&text).unwrap()
        });
        let mut job = job(&["a.example".to_owned()]);
        job.kinds = vec![Dns01, TlsAlpn01, Http01];
        job.dns = vec!["*.a.example".to_owned()];
        assert_eq!(choose(&job, "*.a.example", &offered), Ok(Dns01));
        assert_eq!(choose(&job, "a.example", &offered), Ok(TlsAlpn01), "no record can be made for it");
        assert_eq!(choose(&job, "a.example", &offered[..2]), Ok(Http01));
        assert!(choose(&job, "*.b.example", &offered).unwrap_err().contains("no challenge"));
        assert!(choose(&job, "*.a.example", &offered[..1]).unwrap_err().contains("no challenge"));
    }

    fn job(names: &[String]) -> Job {
        let (key, names) = (KeyType::P256, names.to_vec());
        Job { names, key, profile: None, replaces: None, kinds: Vec::new(), dns: Vec::new() }
    }

    #[test]
    fn blame_follows_who_said_what() {
        let problem = |kind: &str| {
            let text = format!(
                "{{\"type\":\"urn:ietf:params:acme:error:{kind}\",\"detail\":\"why\",\"status\":403}}"
            );
            Error::Api(serde_json::from_str(&text).unwrap())
        };
        let answered = |status| {
            let seen = Seen::default();
            seen.note(Some(status), Some(Duration::from_secs(9)));
            seen
        };
        let refused = Trouble::of(&problem("rejectedIdentifier"), &answered(403));
        assert_eq!(
            refused.failure,
            Failure { blame: Blame::Refused, retry_after: Some(Duration::from_secs(9)) }
        );
        assert_eq!(refused.text, "why (urn:ietf:params:acme:error:rejectedIdentifier)");
        assert_eq!(Trouble::of(&problem("serverInternal"), &answered(403)).failure.blame, Blame::Unreachable);
        assert_eq!(Trouble::of(&problem("unauthorized"), &answered(503)).failure.blame, Blame::Unreachable);
        let silent = Trouble::of(&Error::Str("x"), &Seen::default());
        assert_eq!(silent.failure, Failure { blame: Blame::Unreachable, retry_after: None });
        assert!(Trouble::refused("é".repeat(4000)).text.len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn a_certificate_for_something_else_is_not_taken() {
        let names = vec!["a.example".to_owned()];
        let made = rcgen::generate_simple_self_signed(names.clone()).unwrap();
        let (key, chain) = (made.signing_key.serialize_pem(), made.cert.pem());
        assert_eq!(check(&job(&names), &key, &chain), Ok(()));
        let other = certificate::request(&names, KeyType::P256).unwrap().key;
        assert!(check(&job(&names), &other, &chain).unwrap_err().contains("key"));
        assert!(check(&job(&["b.example".to_owned()]), &key, &chain).unwrap_err().contains("b.example"));
    }
}
