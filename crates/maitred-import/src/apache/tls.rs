//! `SSL…` and `MD…`: certificates, versions, certificates of clients; `RemoteIP…`.

use super::context::Cx;
use super::modules;
use super::tree::Directive;
use crate::model::{Block, Value};
use crate::report::{Kind, Place};

fn last<'d>(all: &[&'d Directive], name: &str) -> Option<&'d Directive> {
    all.iter().copied().rfind(|one| one.name == name)
}

/// Certificates and keys, whether they are there, and where they are named.
pub(crate) fn certificates(cx: &Cx<'_>, all: &[&Directive]) -> Vec<(String, String, bool, Place)> {
    let of = |name: &str| -> Vec<&Directive> { all.iter().copied().filter(|one| one.name == name).collect() };
    let keys = of("sslcertificatekeyfile");
    let mut found = Vec::new();
    for (at, one) in of("sslcertificatefile").into_iter().enumerate() {
        let path = cx.loader.absolute(one.arg(0));
        let key = keys.get(at).map_or(path.clone(), |key| cx.loader.absolute(key.arg(0)));
        let there = cx.shared.machine.has_file(&path) && cx.shared.machine.has_file(&key);
        let why = if there { "" } else { "as a comment: the file is not there on this machine" };
        cx.say(one, Kind::Translated, why);
        keys.iter().for_each(|key| cx.say(*key, Kind::Translated, why));
        found.push((path, key, there, one.place.clone()));
    }
    for one in of("sslcertificatechainfile") {
        cx.say(
            one,
            Kind::Worse,
            "append its certificates to the file of the certificate: clients get what stands there",
        );
    }
    found
}

/// `tls` of a listener, from the virtual hosts that answer there.
pub(crate) fn of_listener(cx: &Cx<'_>, hosts: &[Vec<&Directive>]) -> Value {
    let mut table: Vec<(String, Value)> = Vec::new();
    // The first virtual host of an address decides what a handshake is like.
    let first = hosts.first().map(Vec::as_slice).unwrap_or_default();
    if let Some(versions) = last(first, "sslprotocol").and_then(|one| versions(cx, one)) {
        table.push(("versions".into(), Value::texts(&versions)));
    }
    for one in hosts.iter().skip(1).flat_map(|host| host.iter().filter(|one| one.name == "sslprotocol")) {
        versions(cx, one);
    }
    if let Some(one) = last(first, "sslsessiontickets").filter(|one| !one.is_on()) {
        cx.translated(one);
        table.push(("tickets".into(), false.into()));
    }
    let asks = |host: &Vec<&Directive>| verify(host, 0);
    if hosts.iter().any(asks) {
        let all = hosts.iter().all(|host| {
            last(host, "sslverifyclient").is_some_and(|one| one.arg(0).eq_ignore_ascii_case("require"))
        });
        let authorities: Vec<&Directive> =
            hosts.iter().flat_map(|host| last(host, "sslcacertificatefile")).collect();
        match authorities.first().filter(|one| authorities.iter().all(|other| other.args == one.args)) {
            Some(one) => {
                let path = cx.loader.absolute(one.arg(0));
                authorities.iter().for_each(|one| cx.translated(*one));
                table.push(("client_auth".into(), if all { "required".into() } else { "optional".into() }));
                table.push(("client_ca".into(), path.into()));
            }
            None => {
                let by =
                    hosts.iter().flat_map(|host| host.iter().filter(|one| one.name == "sslverifyclient"));
                by.for_each(|one| {
                    cx.not_possible(
                        *one,
                        "one file has the authorities of an address: until then its place answers 403",
                    )
                });
            }
        }
        if let Some(one) = hosts.iter().find_map(|host| last(host, "sslcarevocationfile")) {
            cx.translated(one);
            table.push(("client_crl".into(), cx.loader.absolute(one.arg(0)).into()));
        }
    }
    Value::Table(table)
}

/// Whether a host, or a place in it, asks for a certificate.
fn verify(all: &[&Directive], depth: usize) -> bool {
    depth < 50
        && all.iter().any(|one| {
            let asks = one.name == "sslverifyclient" && !one.arg(0).eq_ignore_ascii_case("none");
            let requires = one.name == "require" && one.arg(0).eq_ignore_ascii_case("ssl-verify-client");
            asks || requires || verify(&one.inside().iter().collect::<Vec<_>>(), depth + 1)
        })
}

/// `SSLProtocol`; nothing, if that is the default here.
fn versions(cx: &Cx<'_>, one: &Directive) -> Option<Vec<&'static str>> {
    let (mut old, mut two, mut three) = (false, false, false);
    for word in &one.args {
        let on = !word.starts_with('-');
        if !word.starts_with(['+', '-']) {
            (old, two, three) = (false, false, false);
        }
        match word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
            "all" => (old, two, three) = (on, on, on),
            "tlsv1.2" => two = on,
            "tlsv1.3" => three = on,
            "tlsv1" | "tlsv1.1" => old = on && (word.starts_with('+') || old),
            _ => {}
        }
    }
    match (two, three) {
        (false, false) => {
            cx.say(one, Kind::Better, "TLS is 1.2 or 1.3 here");
            None
        }
        _ if old => {
            cx.say(one, Kind::Better, "TLS 1.0 and 1.1, which RFC 8996 forbids, are not there");
            None
        }
        (true, true) => {
            cx.translated(one);
            None
        }
        (two, _) => {
            cx.translated(one);
            Some(vec![if two { "1.2" } else { "1.3" }])
        }
    }
}

/// Whether mod_md has the certificates of a site.
pub(crate) fn is_managed(cx: &Cx<'_>, all: &[&Directive], names: &[String]) -> bool {
    let domains: Vec<&Directive> =
        all.iter().copied().filter(|one| one.is(&["mdomain", "mdomainset"])).collect();
    let own = domains
        .iter()
        .filter(|one| one.args.iter().any(|name| names.contains(&name.to_ascii_lowercase())))
        .count()
        > 0;
    if own {
        domains.iter().for_each(|one| cx.translated(*one));
    }
    own
}

/// `[acme]`
pub(crate) fn acme(cx: &Cx<'_>, main: &[&Directive]) -> Option<Block> {
    let first = main.iter().find(|one| one.is(&["mdomain", "mdomainset"]))?;
    let mut block = Block::new("[acme]").from(&first.place, &first.shown);
    let agreed = last(main, "mdcertificateagreement");
    if let Some(one) = agreed {
        cx.translated(one);
    }
    block.push("agree", agreed.is_some_and(|one| one.arg(0).eq_ignore_ascii_case("accepted")), None);
    if let Some(one) = last(main, "mdcontactemail")
        .or_else(|| last(main, "serveradmin"))
        .filter(|one| one.arg(0).contains('@'))
    {
        cx.translated(one);
        block.push("contact", Value::texts(&[one.arg(0)]), None);
    }
    if let Some(one) = last(main, "mdcertificateauthority").filter(|one| one.arg(0).starts_with("https://")) {
        cx.translated(one);
        block.push("directory", one.arg(0), None);
    }
    Some(block)
}

/// `[server]`: who the client is behind a proxy.
pub(crate) fn server(cx: &Cx<'_>, main: &[&Directive]) -> Option<Block> {
    let given: Vec<&&Directive> =
        main.iter().filter(|one| one.is(&["remoteipinternalproxy", "remoteiptrustedproxy"])).collect();
    let header = last(main, "remoteipheader");
    if given.is_empty() && header.is_none() {
        return None;
    }
    let mut block = Block::new("[server]");
    let mut proxies: Vec<String> = Vec::new();
    for one in given {
        let networks: Option<Vec<String>> =
            one.args.iter().map(|text| super::conditions::network(text)).collect();
        match networks {
            Some(networks) => {
                cx.translated(*one);
                proxies.extend(networks);
            }
            None => cx.not_possible(*one, "names of proxies are not looked up"),
        }
    }
    if proxies.is_empty() {
        if let Some(one) = header {
            cx.not_possible(one, "no proxy is named that is believed: `trusted_proxies` in [server]");
        }
        return None;
    }
    block.push("trusted_proxies", Value::texts(&proxies), None);
    if let Some(one) = header {
        cx.translated(one);
        if !one.arg(0).eq_ignore_ascii_case("x-forwarded-for") {
            block.push("client_address_from", one.arg(0), None);
        }
    }
    Some(block)
}

/// What a server says once, and what Maitred does anyway.
pub(crate) fn once(cx: &Cx<'_>, all: &[&Directive]) {
    for one in all {
        match one.name.as_str() {
            "sslengine" => cx.translated(*one),
            "sslcipherSuite" | "sslciphersuite" | "sslopensslconfcmd" => {
                cx.say(
                    *one,
                    Kind::Choice,
                    "cipher suites are those of rustls, all with forward secrecy: \
                 `ciphers` of `tls` narrows them",
                );
            }
            "ssloptions" if one.text().to_ascii_lowercase().contains("fakebasicauth") => {
                cx.not_possible(*one, "a certificate is no user of Basic authentication");
            }
            "ifmodule" => absent(cx, one),
            _ => {}
        }
    }
}

/// A section about a module that is not there.
pub(crate) fn absent(cx: &Cx<'_>, one: &Directive) {
    let name = modules::short(one.arg(0));
    let php = name.starts_with("php") || name.starts_with("lsapi") || name == "litespeed";
    let why = match () {
        () if php && cx.php_outside.get() => "PHP runs in php-fpm, and not in httpd",
        () if !cx.loader.loaded.is_empty() => "the module is not loaded",
        () => {
            let security = name.starts_with("security") || name.starts_with("evasive");
            let why = match security {
                true => {
                    "keep Apache behind Maitred with mod_maitred for this module (docs/applications.md): \
                 Maitred has nothing like it"
                }
                false => {
                    "whether the module is loaded is not known: without its `LoadModule` what stands in it \
                 is not in the output"
                }
            };
            return cx.not_possible(one, why);
        }
    };
    cx.say(one, Kind::NotNeeded, why);
    cx.silence(one, why);
}
