//! nginx on a configuration, and Maitred on its import: what clients get is the same, but for what [`DIFFERENCES`] lists.
//!
//! The URLs are made from the locations, and from a list of names that regular expressions of such configurations ask for; one
//! server of the test stands for all upstreams.

mod apache;
mod caddy;
mod differences;
mod servers;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::import::World;
use differences::Is;
use servers::{Answer, Nginx, Stub};

/// Configurations that both are given: without TLS, and without applications that are no HTTP servers.
const SAMPLES: &[&str] = &[
    "bad-bots",
    "cors",
    "debian-default",
    "discourse",
    "django",
    "docker",
    "docker-image",
    "downloads",
    "expires-map",
    "files-before-app",
    "ghost",
    "gitea",
    "grafana",
    "headers-inherited",
    "hotlinks",
    "ifs",
    "immich",
    "internal-networks",
    "jenkins",
    "locations-order",
    "map-of-variables",
    "look-ahead",
    "methods",
    "media-types",
    "minio",
    "missing-first",
    "multi-tenant",
    "names",
    "nested",
    "nexus",
    "pages-elsewhere",
    "paperless",
    "phoenix",
    "prefixes",
    "proxy",
    "proxy-fields",
    "quoted",
    "rails",
    "real-ip",
    "redmine",
    "regex-alias",
    "rewrites",
    "rewrite-queries",
    "set-variables",
    "spa",
    "spa-api",
    "spa-caching",
    "sse-gzip-static",
    "static",
    "subpath-apps",
    "targets",
    "tenants",
    "three-hosts",
    "uploads",
];
/// Paths beside those of the locations.
const PATHS: &[&str] = &[
    "/",
    "/index.html",
    "/about",
    "/about.html",
    "/style.css",
    "/a.txt",
    "/a.txt?x=1",
    "/docs",
    "/docs/",
    "/assets/app.js",
    "/nope",
    "/nope/",
    "/nope.js",
    "/nope.PNG",
    "/.hidden",
    "/.git/config",
    "/x.php",
    "/a%20b/c?d=e%2Ff",
    "/x%2Fy//z",
    "/a;b+c,d%2Be?f=g+h%20i;j",
    "/%7Eu/./v/../w",
    "/tier?tier=gold",
    "/tier?tier=silver&x",
];
/// What is asked below a location.
const BELOW: &[&str] = &["", "x", "x/y.html", "index.html", "a.txt?q=1", "7", "a%2Fb//c;d+e%20f"];

/// What configurations with these words are asked with besides.
const FIELDS: &[(&str, &[&str])] = &[
    (
        "valid_referers",
        &[
            "Referer: http://pics.example.com/a\r\n",
            "Referer: https://x.example.net\r\n",
            "Referer: https://www.google.com/search\r\n",
            "Referer: http://partner.example/pics/1\r\n",
            "Referer: http://partner.example/other\r\n",
            "Referer: https://example.net.evil.example/\r\n",
            "Referer: -blanked-\r\n",
        ],
    ),
    ("$arg_tier", &["Cookie: tier=gold\r\n"]),
];

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    method: &'static str,
    host: String,
    target: String,
    /// Further lines of the head.
    fields: &'static str,
}

/// The names of the servers, and the paths of their locations.
fn asked(tree: &Value, text: &str) -> BTreeSet<Asked> {
    let mut hosts: Vec<String> = vec!["other.example".into()];
    let mut paths: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
    collect(tree, &mut hosts, &mut paths);
    let mut all = BTreeSet::new();
    let mut methods = vec!["GET", "HEAD"];
    if ["request_method", "limit_except"].iter().any(|word| text.contains(word)) {
        methods.extend(["OPTIONS", "DELETE"]);
    }
    let mut further = vec![""];
    for (word, fields) in FIELDS {
        if text.contains(word) {
            further.extend(*fields);
        }
    }
    for (host, fields) in hosts.iter().flat_map(|host| further.iter().map(move |fields| (host, *fields))) {
        for target in &paths {
            for &method in &methods {
                // Whether a directory or a file is there does not depend on the method.
                if method == "GET" || target.len() < 12 {
                    all.insert(Asked { method, host: host.clone(), target: target.clone(), fields });
                }
            }
        }
    }
    all
}

fn collect(tree: &Value, hosts: &mut Vec<String>, paths: &mut Vec<String>) {
    for directive in tree.as_array().unwrap() {
        let args: Vec<&str> =
            directive[1].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        match (directive[0].as_str().unwrap(), args.as_slice()) {
            ("server_name", names) => {
                let plain = names.iter().filter(|name| name.contains('.') && !name.contains(['*', '~', '$']));
                hosts.extend(plain.take(3).map(|name| name.trim_start_matches('.').to_owned()));
            }
            ("location", ["=", path]) => paths.push((*path).to_owned()),
            ("location", ["^~", prefix] | [prefix]) if prefix.starts_with('/') => {
                paths.extend(BELOW.iter().map(|below| format!("{prefix}{below}")));
                paths.extend(prefix.strip_suffix('/').filter(|path| !path.is_empty()).map(str::to_owned));
            }
            _ => {}
        }
        if directive[3].is_array() {
            collect(&directive[3], hosts, paths);
        }
    }
}

fn compare(name: &str) -> Vec<String> {
    let world = World::new();
    let Some(nginx) = Nginx::found() else { return Vec::new() };
    let stub = Stub::start();
    let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import/nginx");
    let text = std::fs::read_to_string(samples.join(format!("{name}.conf"))).unwrap();
    // As Debian's `nginx.conf` has it.
    let text = format!("default_type application/octet-stream;\n{}", world.place(&text));
    let text = servers::with_upstream(&text, stub.address);
    let tree = maitred_import::nginx_directives(&text).unwrap();
    let theirs = servers::nginx(&nginx, &world, &text);
    let ours = servers::maitred(&text);
    let mut wrong = Vec::new();
    for asked in asked(&tree, &text) {
        let (there, here) = (Answer::ask(theirs.address, &asked), Answer::ask(ours.address, &asked));
        if let Some(why) = differences::between(&asked, &there, &here) {
            let Asked { method, host, target, fields } = asked;
            wrong.push(format!(
                "{name}: {method} {target} of {host}, {fields:?}: {why}\n  nginx   {there:?}\n  maitred {here:?}"
            ));
        }
    }
    wrong
}

fn quarter(number: usize) {
    if Nginx::found().is_none() {
        return crate::support::skip_missing("no nginx (Debian: nginx-light)");
    }
    let samples = SAMPLES.iter().enumerate().filter(|(at, _)| at % 4 == number);
    let wrong: Vec<String> = samples.flat_map(|(_, name)| compare(name)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn clients_get_from_the_import_what_nginx_gives_them_1() {
    quarter(0);
}

#[test]
fn clients_get_from_the_import_what_nginx_gives_them_2() {
    quarter(1);
}

#[test]
fn clients_get_from_the_import_what_nginx_gives_them_3() {
    quarter(2);
}

#[test]
fn clients_get_from_the_import_what_nginx_gives_them_4() {
    quarter(3);
}
