//! Servers that are found while the server runs.

use std::net::SocketAddr;

use super::meaning::EVERYTHING;
use super::*;

#[test]
fn names_files_and_name_servers_are_read() {
    let config = good(EVERYTHING);
    let name = |host: &str, srv, port, authority: &str| Name {
        query: Query { host: host.into(), srv },
        port,
        authority: authority.into(),
        first: Vec::new(),
    };
    let names = vec![
        name("_http._tcp.old.internal", true, 0, "_http._tcp.old.internal"),
        name("old.internal", false, 81, "old.internal:81"),
    ];
    let found: Vec<_> =
        config.pools.iter().map(|pool| &pool.discovery).filter(|one| !one.is_none()).collect();
    assert_eq!(found, [&Discovery { names, file: Some("/etc/maitred/old.json".into()) }]);
    let resolver: Vec<SocketAddr> = ["192.0.2.53:53", "[::1]:5353"].map(|one| one.parse().unwrap()).to_vec();
    assert_eq!(config.server.resolver, resolver);
}

#[test]
fn what_cannot_be_resolved_is_said() {
    let pool = |lines: &str| {
        let route = "[[site.route]]\npath = \"/*\"\npool = \"a\"\n";
        format!("{START}[[site]]\n{route}[pool.a]\n{lines}\n")
    };
    let [said] = &brief(&pool("connect = \"http+srv://a..b\""))[..] else { panic!("one error") };
    assert!(said.contains("it takes the name of a service"), "{said}");
    let [said] =
        &brief(&format!("{}[server]\nresolver = \"dns.test\"\n", pool("connect = \"http://127.0.0.1\"")))[..]
    else {
        panic!("one error")
    };
    assert!(said.contains("is not the address of a name server"), "{said}");
    // A file alone is enough, and its servers are of HTTP.
    let config = good(&pool("endpoints = \"a.json\""));
    assert_eq!(config.pools[0].source, Source::Http(Vec::new()));
    assert_eq!(config.pools[0].discovery.file.as_deref(), Some(Path::new("/etc/maitred/a.json")));
}
