//! The tables of docs/from-nginx.md, from-caddy.md, from-unit.md and from-apache.md: what stands on their left is in a
//! sample that is imported, and became something there.

use std::path::Path;

use crate::import::World;

/// What the first column of a page's tables names, without what other servers have there, and words that are no directives.
fn named(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = std::fs::read_to_string(path).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let mut found = Vec::new();
    for row in rows {
        for (number, name) in row.split('`').enumerate() {
            let name = name.split(' ').next().unwrap_or_default();
            if number % 2 == 1 && !name.is_empty() && !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// The rows of all samples that say that something became of a directive.
fn rows(server: &str) -> Vec<String> {
    let world = World::new();
    let mut all = Vec::new();
    for sample in world.samples(server) {
        let imported = match server {
            "nginx" => maitred_import::nginx(&[sample.path], None),
            "caddy" => maitred_import::caddy(&[sample.path], None),
            "apache" => maitred_import::apache(&[sample.path], None, &[], None),
            _ => maitred_import::unit(&[sample.path]),
        };
        let lines = imported.unwrap().report.lines();
        let possible = lines.iter().filter(|line| !line.contains("  not possible"));
        all.extend(possible.filter_map(|line| Some(line.split_once("  ")?.1.trim().to_owned())));
    }
    all
}

fn try_rows(server: &str, page: &str, others: &[&str], is: impl Fn(&str, &str) -> bool) {
    let rows = rows(server);
    let named: Vec<String> =
        named(page).into_iter().filter(|name| !others.contains(&name.as_str())).collect();
    assert!(named.len() >= 15, "{page} names {named:?}");
    let without: Vec<&String> = named.iter().filter(|name| !rows.iter().any(|row| is(row, name))).collect();
    assert!(without.is_empty(), "no sample of {server} has what {page} names: {without:?}");
}

/// The directive of a row.
fn begins(row: &str, name: &str) -> bool {
    row.split([' ', '…']).next() == Some(name)
}

#[test]
fn each_row_about_nginx_has_a_sample() {
    // Words of Caddy and HAProxy, fields, variables, and what is not possible yet.
    let others = [
        "bind",
        "frontend",
        "file_server",
        "encode",
        "backend",
        "reverse_proxy",
        "tls_certificate",
        "X-Accel-Redirect",
        "X-Accel-Limit-Rate",
        "uwsgi_pass",
        "proxy_cache_bypass",
        "proxy_no_cache",
        "$request_uri",
        "REQUEST_URI",
    ];
    try_rows("nginx", "from-nginx.md", &others, begins);
}

#[test]
fn each_row_about_caddy_has_a_sample() {
    // What is not possible, and names of hosts.
    let others = ["@name", "templates", "handle_errors", "map", "metrics", "php_server", "frankenphp"];
    try_rows("caddy", "from-caddy.md", &others, |row, name| {
        begins(row, name) || (name == "servers" && row.starts_with("servers"))
    });
}

#[test]
fn each_row_about_unit_has_a_sample() {
    let others = ["ruby", "java", "perl", "wasm", "python", "external", "php", "types"];
    try_rows("unit", "from-unit.md", &others, |row, name| {
        let path = row.split("  ").next().unwrap_or_default();
        path.split('/').any(|part| name.split('.').any(|word| part == word))
    });
}

#[test]
fn each_row_about_apache_has_a_sample() {
    // Modules, words of others, fields, and what is not possible.
    let others = [
        "FollowSymLinks",
        "WSGIScriptAlias",
        "WSGIDaemonProcess",
        "XSendFile",
        "mod_security",
        "mod_dav",
        "mod_include",
        "mod_cache",
        "mod_php",
        "CacheEnable",
        "CacheRoot",
    ];
    try_rows("apache", "from-apache.md", &others, |row, name| {
        let first = row.trim_start_matches('<').split([' ', '…', '>']).next().unwrap_or_default();
        first.eq_ignore_ascii_case(name.trim_matches(['<', '>']))
    });
}
