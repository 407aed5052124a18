//! `[acme]`, and which sites can have what it is for.

mod dns;

use std::path::Path;

use super::super::acme::{
    Acme, Authority, ChallengeChoice, ExternalAccount, KeyType, NAMES_MAX, OnDemand, certificate_path,
};
use super::super::meaning::{Certificate, HostPattern, Site};
use super::super::reader::{Section, shorten};

/// What to do where DNS-01 is needed.
const ADD_DNS: &str = "add [[acme.dns]] with server = \"…\" and key_file = \"…\", or with hook = [\"…\"]";

/// `[acme]`; `None` if it is not there.
pub(super) fn acme(root: &Section<'_>) -> Option<Acme> {
    let section = root.section("acme");
    let span = root.key_span("acme");
    let acme = Acme {
        authorities: authorities(&section),
        fallback_after: section.number("fallback_after").value,
        contact: contact(&section),
        challenge: match section.choice("challenge") {
            Some("http-01") => ChallengeChoice::Http01,
            Some("tls-alpn-01") => ChallengeChoice::TlsAlpn01,
            Some("dns-01") => ChallengeChoice::Dns01,
            _ => ChallengeChoice::Auto,
        },
        dns: section.sections("dns").iter().filter_map(dns::dns).collect(),
        key: match section.choice("key") {
            Some("p384") => KeyType::P384,
            Some("rsa2048") => KeyType::Rsa2048,
            _ => KeyType::P256,
        },
        on_demand: on_demand(&section),
        user: super::user(&section),
        retry: section.time("retry"),
    };
    let agreed = section.flag("agree");
    let span = span?;
    if acme.challenge == ChallengeChoice::Dns01 && section.given("dns").is_none() {
        let challenge = section.given("challenge").unwrap_or(span.clone());
        section.cx.missing(&challenge, "`challenge = \"dns-01\"` needs [[acme.dns]]", ADD_DNS);
    }
    if !agreed {
        section.cx.missing(
            &section.given("agree").unwrap_or(span),
            "the authority's terms of service are not agreed to",
            "read them, and add agree = true to [acme]",
        );
    }
    Some(acme)
}

fn on_demand(acme: &Section<'_>) -> Option<OnDemand> {
    acme.key_span("on_demand")?;
    let section = acme.section("on_demand");
    let ask = section.text("ask");
    if let Some(text) = &ask {
        let host = text.value.strip_prefix("http://").and_then(|rest| rest.split(['/', '?']).next());
        let fragment = text.value.contains('#');
        if host.is_none_or(str::is_empty) || fragment || text.value.parse::<http::Uri>().is_err() {
            let message = format!("`ask`: \"{}\" is not the URL of a service", shorten(&text.value));
            section.cx.error_with(
                &text.span,
                message,
                "it starts with http://, as in \"http://127.0.0.1:9000/allowed\"",
            );
        }
    }
    Some(OnDemand {
        orders_per_minute_max: section.number("orders_per_minute_max").value,
        names_max: section.number("names_max").value,
        refused_time: section.time("refused_time"),
        wait_timeout: section.time("wait_timeout"),
        waiting_max: section.number("waiting_max").value,
        ask: ask?.value,
    })
}

/// Whether a site has certificates on demand.
pub(super) fn is_on_demand(section: &Section<'_>, acme: Option<&Acme>) -> bool {
    let (Err("on-demand"), Some(span)) = (section.flag_or_choice("acme"), section.given("acme")) else {
        return false;
    };
    let cx = section.cx;
    if acme.is_none_or(|acme| acme.on_demand.is_none()) {
        let hint = "add on_demand = { ask = \"http://…\" } to [acme]: without a service to ask, any client could have certificates made";
        cx.missing(&span, "`acme = \"on-demand\"` takes `on_demand` in [acme]", hint);
    }
    if let Some(certificates) = section.given("certificates") {
        let message = "a site with `certificates` has none on demand";
        cx.conflict(&span, message, "`certificates` is set here", &certificates);
    }
    true
}

/// Whether a site has an automatic certificate; `acme` is `[acme]`, if there is one.
pub(super) fn of_site(section: &Section<'_>, hosts: &[HostPattern], acme: Option<&Acme>) -> bool {
    let wanted = section.flag_or_choice("acme") == Ok(true);
    let Some(span) = section.given("acme").filter(|_| wanted) else { return false };
    let cx = section.cx;
    if acme.is_none() {
        cx.missing(
            &span,
            "`acme` takes a table [acme]",
            "add [acme] with agree = true and contact = [\"…\"]",
        );
    }
    if hosts.is_empty() && section.texts("hosts").is_empty() {
        cx.error_with(
            &span,
            "a site without `hosts` has no names that a certificate could be for",
            "add hosts = [\"example.com\"]",
        );
    }
    if hosts.len() > NAMES_MAX {
        let message =
            format!("a certificate has at most {NAMES_MAX} names, and this site has {}", hosts.len());
        cx.error_with(&span, message, "make two sites of it");
    }
    for text in section.texts("hosts") {
        let host = text.value.to_ascii_lowercase();
        let needs_dns =
            host.starts_with("*.") || acme.is_some_and(|acme| acme.challenge == ChallengeChoice::Dns01);
        let (why, hint) = if is_address(&host) {
            ("it is an address", "authorities certify names")
        } else if needs_dns && acme.is_some_and(|acme| acme.dns_for(&host).is_none() && !acme.dns.is_empty())
        {
            ("no [[acme.dns]] covers it", "add its domain to `domains`, or another [[acme.dns]]")
        } else if host.starts_with("*.") && acme.is_some_and(|acme| acme.dns.is_empty()) {
            ("a wildcard takes a proof in the DNS (DNS-01)", ADD_DNS)
        } else {
            continue;
        };
        let message = format!("\"{}\" cannot have an automatic certificate: {why}", shorten(&text.value));
        cx.error_with(&text.span, message, hint);
    }
    true
}

/// Where the certificates of sites that have automatic ones are, or are going to be.
pub(super) fn add_certificates(sites: &mut [Site], state: &Path) {
    for site in sites.iter_mut().filter(|site| site.acme) {
        if let Some(name) = site.hosts.first().map(HostPattern::to_string) {
            site.certificates.push(Certificate::Automatic(certificate_path(state, &name)));
        }
    }
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// The authority of `[acme]` itself, and those of `fallback`.
fn authorities(section: &Section<'_>) -> Vec<Authority> {
    let authority = |section: &Section<'_>| Authority {
        directory: directory(section),
        profile: section.text("profile").map(|text| text.value),
        ca_file: super::path(section, "ca_file"),
        external_account: external_account(section),
    };
    let mut all = vec![authority(section)];
    for section in section.sections("fallback") {
        let next = authority(&section);
        if all.contains(&next) {
            let span = section.given("directory").unwrap_or(section.span.clone());
            section.cx.error_with(&span, "this authority is tried already", "name another one, or remove it");
        }
        all.push(next);
    }
    all
}

fn directory(section: &Section<'_>) -> String {
    let Some(text) = section.text("directory") else { return String::new() };
    let host = text.value.strip_prefix("https://").and_then(|rest| rest.split('/').next());
    if host.is_none_or(str::is_empty) || text.value.parse::<http::Uri>().is_err() {
        section.cx.error_with(
            &text.span,
            format!("`directory`: \"{}\" is not the URL of an authority", shorten(&text.value)),
            "it starts with https://, as in \"https://acme-v02.api.letsencrypt.org/directory\"",
        );
    }
    text.value
}

fn contact(section: &Section<'_>) -> Vec<String> {
    let texts = section.texts("contact");
    for text in &texts {
        let plain = text.value.bytes().all(|byte| byte.is_ascii_graphic() && !b",?:<>\"".contains(&byte));
        let parts = text.value.split_once('@');
        if !plain || parts.is_none_or(|(name, host)| name.is_empty() || host.is_empty() || host.contains('@'))
        {
            section.cx.error_with(
                &text.span,
                format!("`contact`: \"{}\" is not an e-mail address", shorten(&text.value)),
                "write \"admin@example.com\", without \"mailto:\"",
            );
        }
    }
    texts.into_iter().map(|text| text.value).collect()
}

fn external_account(acme: &Section<'_>) -> Option<ExternalAccount> {
    acme.key_span("external_account")?;
    let section = acme.section("external_account");
    let key_id = section.text("key_id").map(|text| text.value);
    let hmac_key_file = super::path(&section, "hmac_key_file");
    Some(ExternalAccount { key_id: key_id?, hmac_key_file: hmac_key_file? })
}
