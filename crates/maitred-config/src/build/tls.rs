//! TLS: `tls` of a listener, `certificates` and `hsts` of a site, and what they say about one another.
//!
//! Certificates are read here only to check them. What is in force is what the master reads (`maitred_tls::material`).

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateRevocationListDer;

use super::super::finding::{Context, Span};
use super::super::listen::{ClientAuth, Listen, Tls, TlsVersion};
use super::super::meaning::{Certificate, HostPattern, Site};
use super::super::reader::{Section, shorten};
use maitred_base::pki::clients::verifier;
use maitred_base::pki::files::{self, Fault, Leaf, List, Part};
use maitred_base::pki::{Bytes, choice};

const DAY_SECS: i64 = 24 * 60 * 60;
/// What the list of browsers that HSTS can be built into asks for, in seconds: a year.
const PRELOAD_SECS: u64 = 31_536_000;

/// Where a listener's keys about TLS stand.
pub(super) struct Spans {
    pub(super) address: Span,
    tls: Option<Span>,
    redirect_http: Option<Span>,
}

/// What is known of a site's certificates.
pub(super) struct Certified {
    /// The certificates that could be read.
    leaves: Vec<Leaf>,
    /// Where `certificates` stands.
    span: Option<Span>,
    hsts: Option<Span>,
    site: Span,
}

impl Spans {
    pub(super) fn of(section: &Section<'_>, address: &Span) -> Spans {
        let (tls, redirect_http) = (section.key_span("tls"), section.key_span("redirect_http"));
        Spans { address: address.clone(), tls, redirect_http }
    }
}

/// `tls`
pub(super) fn listener(section: &Section<'_>) -> Option<Tls> {
    let given = section.key_span("tls");
    let tls = section.section("tls");
    let client_auth = client_auth(&tls);
    let versions = versions(&tls);
    let meant = Tls {
        ciphers: ciphers(&tls, &versions),
        curves: curves(&tls, &versions),
        versions,
        client_crl: client_crl(&tls, &client_auth),
        client_auth,
        early_data: tls.flag("early_data"),
        tickets: tls.flag("tickets"),
        keylog: keylog(&tls),
        ktls: tls.choice("ktls") == Some("on"),
    };
    if let (true, Some(span)) = (meant.early_data, tls.given("early_data")) {
        if !meant.tickets {
            let message = "`early_data` comes with a resumed session, and `tickets = false` forbids those";
            tls.cx.error_with(&span, message, "take one of them out");
        }
        if !meant.versions.contains(&TlsVersion::V13) {
            let message = "`early_data` needs TLS 1.3, which `versions` leaves out";
            tls.cx.error_with(&span, message, "add \"1.3\" to `versions`");
        }
    }
    if let (true, false, Some(span)) =
        (meant.ktls, meant.versions.contains(&TlsVersion::V13), tls.given("ktls"))
    {
        let message = "`ktls` needs TLS 1.3, which `versions` leaves out";
        tls.cx.error_with(&span, message, "add \"1.3\" to `versions`, or take `ktls` out");
    }
    if let (Some(_), Some(redirect)) = (&given, section.key_span("redirect_http"))
        && section.flag("redirect_http")
    {
        let message = "an address with `tls` has nothing to redirect from";
        section.cx.error_with(&redirect, message, "`redirect_http` belongs to an address in cleartext");
    }
    given.map(|_| meant)
}

fn versions(tls: &Section<'_>) -> Vec<TlsVersion> {
    let version = |word: &str| if word == "1.2" { TlsVersion::V12 } else { TlsVersion::V13 };
    let mut versions: Vec<_> = tls.choices("versions").into_iter().map(version).collect();
    if let Some(span) = tls.empty_array("versions") {
        tls.cx.error_with(
            &span,
            "`versions` is empty, so that no client could connect",
            "name one, or take it out",
        );
    }
    versions.sort();
    versions
}

fn ciphers(tls: &Section<'_>, versions: &[TlsVersion]) -> Vec<String> {
    let chosen = tls.choices("ciphers");
    let Some(span) = tls.given("ciphers") else { return owned(chosen) };
    for (version, name) in [(TlsVersion::V12, "1.2"), (TlsVersion::V13, "1.3")] {
        let has = chosen.iter().any(|cipher| choice::is_13(cipher) == (version == TlsVersion::V13));
        match (versions.contains(&version), has) {
            (true, false) => {
                let message = format!("`ciphers` has none of TLS {name}, so that no client could use it");
                tls.cx.error_with(&span, message, format!("add one, or leave \"{name}\" out of `versions`"));
            }
            (false, true) => {
                let message = format!("`ciphers` has some of TLS {name}, which `versions` leaves out");
                tls.cx.warn(&span, &message, "they have no effect");
            }
            _ => {}
        }
    }
    owned(chosen)
}

fn curves(tls: &Section<'_>, versions: &[TlsVersion]) -> Vec<String> {
    let chosen = tls.choices("curves");
    if let Some(span) = tls.empty_array("curves") {
        tls.cx.error_with(
            &span,
            "`curves` is empty, so that no client could connect",
            "name one, or take it out",
        );
    } else if let Some(span) = tls.given("curves")
        && versions.contains(&TlsVersion::V12)
        && chosen.iter().all(|curve| choice::CURVES_OF_13.contains(curve))
    {
        let message = "`curves` has none of TLS 1.2, so that no client could use it";
        tls.cx.error_with(&span, message, "add one, or leave \"1.2\" out of `versions`");
    }
    owned(chosen)
}

fn owned(words: Vec<&'static str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

fn client_auth(tls: &Section<'_>) -> ClientAuth {
    let wanted = tls.choice("client_auth");
    let path = super::path(tls, "client_ca");
    let given = tls.given("client_ca");
    if let (Some(path), Some(span)) = (&path, &given) {
        client_roots(tls.cx, path, span);
    }
    match (wanted, path) {
        (Some("optional"), Some(path)) => ClientAuth::Optional(path),
        (Some("required"), Some(path)) => ClientAuth::Required(path),
        (Some("optional" | "required"), None) => {
            if let (Some(span), None) = (tls.given("client_auth"), given) {
                let message = "`client_auth` needs `client_ca`, the certificates of the trusted authorities";
                tls.cx.error_with(&span, message, "add client_ca = \"ca.pem\"");
            }
            ClientAuth::Off
        }
        (_, path) => {
            if let (Some(_), Some(span)) = (path, given) {
                tls.cx.warn(&span, "`client_ca` has no effect", "`client_auth` is \"off\"");
            }
            ClientAuth::Off
        }
    }
}

fn client_roots(cx: &Context<'_>, path: &Path, span: &Span) {
    let fault = |text: String, hint: &str| report(cx, span, format!("`client_ca`: {text}"), hint);
    let pem = match cx.lookup.read(path) {
        Ok(pem) => pem,
        Err(error) => return fault(files::unreadable(&error, path), ""),
    };
    let roots = match files::certificates(&pem) {
        Ok(roots) => roots,
        Err(wrong) => return fault(wrong.text, wrong.hint),
    };
    let roots: Vec<_> = roots.iter().map(|der| Bytes(der.to_vec())).collect();
    if let Err(text) = verifier(false, &roots, &[]) {
        report(cx, span, text.replacen("client_ca", "`client_ca`", 1), "");
    }
}

fn client_crl(tls: &Section<'_>, auth: &ClientAuth) -> Option<PathBuf> {
    let path = super::path(tls, "client_crl")?;
    let span = tls.given("client_crl")?;
    if *auth == ClientAuth::Off {
        tls.cx.warn(&span, "`client_crl` has no effect", "`client_auth` is \"off\"");
        return None;
    }
    let fault = |text: String, hint: &str| report(tls.cx, &span, format!("`client_crl`: {text}"), hint);
    match tls.cx.lookup.read(&path) {
        Err(error) => fault(files::unreadable(&error, &path), ""),
        Ok(pem) => match files::revocation_lists(&pem) {
            Err(wrong) => fault(wrong.text, wrong.hint),
            Ok(lists) => usable(tls.cx, &span, auth, &lists),
        },
    }
    Some(path)
}

/// Whether revocation lists can be used with the authorities, which are reported on elsewhere.
fn usable(cx: &Context<'_>, span: &Span, auth: &ClientAuth, lists: &[CertificateRevocationListDer<'_>]) {
    let (ClientAuth::Optional(path) | ClientAuth::Required(path)) = auth else { return };
    let Some(roots) = cx.lookup.read(path).ok().and_then(|pem| files::certificates(&pem).ok()) else {
        return;
    };
    let all = |ders: &[&[u8]]| ders.iter().map(|der| Bytes(der.to_vec())).collect::<Vec<_>>();
    let (root_ders, list_ders): (Vec<&[u8]>, Vec<&[u8]>) =
        (roots.iter().map(|der| &**der).collect(), lists.iter().map(|der| &**der).collect());
    if verifier(false, &all(&root_ders), &[]).is_err() {
        return;
    }
    match verifier(false, &all(&root_ders), &all(&list_ders)) {
        Err(text) => report(cx, span, format!("`client_crl` cannot be used: {text}"), ""),
        Ok(_) => question_lists(cx, span, &root_ders, &list_ders),
    }
}

/// Reports lists that shut out clients whose certificates are not revoked, which may not be what was meant.
fn question_lists(cx: &Context<'_>, span: &Span, roots: &[&[u8]], lists: &[&[u8]]) {
    let now = i64::try_from(cx.lookup.unix_secs()).unwrap_or(i64::MAX);
    let lists: Vec<List> = lists.iter().filter_map(|der| List::read(der)).collect();
    let hint = "every client with a certificate of this authority is refused";
    for List { issuer, next_update, .. } in &lists {
        if let Some(at) = next_update.filter(|at| *at < now) {
            let since = days(now - at, "ago");
            cx.warn(span, format!("the revocation list of {issuer} went out of date {since}"), hint);
        }
    }
    for (raw, name) in roots.iter().filter_map(|der| files::subject(der)) {
        if !lists.iter().any(|list| list.issuer_der == raw) {
            cx.warn(span, format!("`client_crl` has no list of {name}"), hint);
        }
    }
}

fn keylog(tls: &Section<'_>) -> Option<PathBuf> {
    let path = super::path(tls, "keylog")?;
    if let Some(span) = tls.given("keylog") {
        tls.cx.warn(
            &span,
            "the secrets of all sessions of this address are written to a file",
            "this is for debugging; any reader of that file can decrypt all connections",
        );
    }
    Some(path)
}

/// `certificates`, read and checked.
pub(super) fn certificates(section: &Section<'_>, hosts: &[HostPattern]) -> (Vec<Certificate>, Certified) {
    let mut certified = Certified {
        leaves: Vec::new(),
        span: section.key_span("certificates"),
        hsts: section.key_span("hsts"),
        site: section.span.clone(),
    };
    let mut certificates = Vec::new();
    for entry in section.sections("certificates") {
        let certificate = super::path(&entry, "certificate");
        let (key, ocsp) = (super::path(&entry, "key"), super::path(&entry, "ocsp"));
        let (Some(certificate), Some(key)) = (certificate, key) else { continue };
        let read = |path: &Path| entry.cx.lookup.read(path);
        match files::load(&certificate, &key, ocsp.as_deref(), &read) {
            Ok((_, leaf)) => {
                question(&entry, &leaf, hosts);
                if let (true, Some(span)) = (entry.cx.lookup.is_public(&key), entry.given("key")) {
                    let message = "`key`: all users of this machine can read this file";
                    entry.cx.warn(
                        &span,
                        message,
                        "`chmod 600`: only the master, which may be root, reads it",
                    );
                }
                certified.leaves.push(leaf);
            }
            Err((fault, _)) => refuse(&entry, &fault),
        }
        certificates.push(Certificate::Files { certificate, key, ocsp });
    }
    (certificates, certified)
}

fn refuse(entry: &Section<'_>, fault: &Fault) {
    let name = match fault.part {
        Part::Certificate => "certificate",
        Part::Key => "key",
        Part::Ocsp => "ocsp",
    };
    let Some(span) = entry.given(name) else { return };
    report(entry.cx, &span, format!("`{name}`: {}", fault.text), fault.hint);
}

fn report(cx: &Context<'_>, span: &Span, message: String, hint: &str) {
    match hint.is_empty() {
        true => cx.error(span, message),
        false => cx.error_with(span, message, hint),
    }
}

/// What may not be what was meant.
fn question(entry: &Section<'_>, leaf: &Leaf, hosts: &[HostPattern]) {
    let cx = entry.cx;
    let Some(span) = entry.given("certificate") else { return };
    let now = cx.lookup.unix_secs();
    let seconds = i64::try_from(now).unwrap_or(i64::MAX);
    // One certificate for many sites has its faults once.
    let first = super::path(entry, "certificate").is_some_and(|path| cx.is_first(path));
    if first && !leaf.is_good_at(now) {
        let message = match seconds > leaf.not_after {
            true => format!("the certificate has expired {}", days(seconds - leaf.not_after, "ago")),
            false => format!("the certificate is not good yet: {}", days(leaf.not_before - seconds, "to go")),
        };
        cx.warn(&span, message, "clients will refuse it");
    }
    if first && !leaf.in_order {
        cx.warn(
            &span,
            "the certificates of this file are not in order",
            "the site's own comes first, and each is signed by the one behind it: some clients will refuse it",
        );
    }
    if let Some(missing) = not_covered(std::slice::from_ref(leaf), hosts) {
        cx.warn(&span, format!("the certificate is not good for {missing}"), good_for(leaf));
    }
}

fn days(seconds: i64, which: &str) -> String {
    match seconds / DAY_SECS {
        0 => format!("less than a day {which}"),
        1 => format!("1 day {which}"),
        many => format!("{many} days {which}"),
    }
}

/// The hosts that none of the certificates is good for, as text.
fn not_covered(leaves: &[Leaf], hosts: &[HostPattern]) -> Option<String> {
    let missing: Vec<String> = hosts
        .iter()
        .filter(|host| {
            let (HostPattern::Exact(name) | HostPattern::Suffix(name)) = host;
            !leaves.iter().any(|leaf| leaf.covers(name))
        })
        .map(|host| match host {
            HostPattern::Exact(name) => format!("\"{}\"", shorten(name)),
            HostPattern::Suffix(suffix) => format!("\"*{}\"", shorten(suffix)),
        })
        .collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

fn good_for(leaf: &Leaf) -> String {
    const SHOWN_MAX: usize = 8;
    let mut names: Vec<String> = leaf.names.iter().take(SHOWN_MAX).map(|name| shorten(name)).collect();
    if leaf.names.len() > SHOWN_MAX {
        names.push("…".into());
    }
    match names.is_empty() {
        true => "clients will refuse it: it names no host at all (subject alternative names)".into(),
        false => format!("clients will refuse it there; it is good for {}", names.join(", ")),
    }
}

/// `hsts` (RFC 6797 section 6.1).
pub(super) fn hsts(section: &Section<'_>) -> Option<String> {
    let text = section.text("hsts")?;
    let what = format!("`hsts` does not take \"{}\"", shorten(&text.value));
    let (max_age, subdomains, preload) = section.cx.accept(&text.span, &what, directives(&text.value))?;
    if preload && (max_age < PRELOAD_SECS || !subdomains) {
        section.cx.warn(
            &text.span,
            "`hsts`: browsers will not take the site into their lists",
            format!("`preload` needs `includeSubDomains` and a `max-age` of at least {PRELOAD_SECS}"),
        );
    }
    Some(text.value)
}

/// `max-age`, whether `includeSubDomains` is there, and whether `preload` is.
fn directives(text: &str) -> Result<(u64, bool, bool), String> {
    let (mut max_age, mut subdomains, mut preload) = (None, false, false);
    for directive in text.split(';').map(str::trim) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let again = match name.to_ascii_lowercase().as_str() {
            "max-age" => {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let seconds = value.parse().ok().filter(|_| digits);
                let seconds = seconds.ok_or("`max-age` is a number of seconds: max-age=31536000")?;
                max_age.replace(seconds).is_some()
            }
            "includesubdomains" if value.is_empty() => std::mem::replace(&mut subdomains, true),
            "preload" if value.is_empty() => std::mem::replace(&mut preload, true),
            _ => return Err("it has `max-age=SECONDS`, and perhaps `includeSubDomains` and `preload`".into()),
        };
        if again {
            return Err(format!("`{}` stands there twice", shorten(name)));
        }
    }
    let max_age = max_age.ok_or("`max-age` is missing: max-age=31536000 is a year")?;
    Ok((max_age, subdomains, preload))
}

/// Listeners and sites against each other.
pub(super) fn check_together(
    cx: &Context<'_>,
    listens: &[(Listen, Spans)],
    sites: &[Site],
    certified: &[Certified],
) {
    let with_tls = listens.iter().filter_map(|(listen, spans)| listen.tls.as_ref().and(spans.tls.as_ref()));
    let first_tls = with_tls.clone().next();
    for (index, (listen, spans)) in listens.iter().enumerate() {
        let here = || sites.iter().zip(certified).filter(|(site, _)| site.answers_at(index));
        let certifies =
            |(site, known): (&Site, &Certified)| known.span.is_some() || site.acme || site.on_demand;
        if let (Some(_), Some(span), false) = (&listen.tls, &spans.tls, here().any(certifies)) {
            let message = match here().count() == sites.len() {
                true => "`tls` needs a certificate, and no site has one",
                false => "`tls` needs a certificate, and no site that answers here has one",
            };
            cx.error_with(
                span,
                message,
                "add certificates = [{ certificate = \"fullchain.pem\", key = \"privkey.pem\" }] to a [[site]], or acme = true",
            );
        }
    }
    for (_, spans) in listens.iter().filter(|(listen, _)| listen.redirect_http && listen.tls.is_none()) {
        if let (Some(span), None) = (&spans.redirect_http, first_tls) {
            let message = "`redirect_http` leads nowhere: no [[listen]] has `tls`";
            cx.error_with(span, message, "add [[listen]] with address = \":443\" and tls = {}");
        }
    }
    let why = match first_tls {
        None => "no [[listen]] has `tls`",
        Some(_) => "no listener of this site has `tls`",
    };
    let over_tls = |site: &Site| {
        listens.iter().enumerate().any(|(index, (listen, _))| listen.tls.is_some() && site.answers_at(index))
    };
    for (_, known) in sites.iter().zip(certified).filter(|(site, _)| !over_tls(site)) {
        for (name, span) in [("certificates", &known.span), ("hsts", &known.hsts)] {
            if let Some(span) = span {
                cx.warn(span, format!("`{name}` has no effect"), why);
            }
        }
    }
    for (index, _) in listens.iter().enumerate().filter(|(_, (listen, _))| listen.tls.is_some()) {
        without_certificates(cx, index, sites, certified);
    }
}

/// A site without certificates is served with those of the first site of the listener that has some: they should be good for it.
fn without_certificates(cx: &Context<'_>, listener: usize, sites: &[Site], certified: &[Certified]) {
    let here = || sites.iter().zip(certified).filter(|(site, _)| site.answers_at(listener));
    let Some((_, default)) = here().find(|(_, site)| !site.leaves.is_empty()) else { return };
    for (site, known) in here().filter(|(site, known)| known.span.is_none() && !site.acme && !site.on_demand)
    {
        if let Some(missing) = not_covered(&default.leaves, &site.hosts) {
            cx.warn(
                &known.site,
                format!("over TLS, no certificate is good for {missing}"),
                "this site has no `certificates`, and those of the first site that has some do not name it",
            );
        }
    }
}
