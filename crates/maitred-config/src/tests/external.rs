//! What only a pool of servers has.

use super::tls::warnings;
use super::*;

fn pool(connect: &str, keys: &str) -> String {
    format!("{COMPLETE}[pool.a]\nconnect = \"{connect}\"\n{keys}\n")
}

#[test]
fn a_host_is_the_clients_the_servers_or_a_name() {
    let host = |keys: &str| good(&pool("http://127.0.0.1:1", keys)).pools[0].external.host.clone();
    assert_eq!(host(""), HostRule::Client);
    assert_eq!(host("host = \"client\""), HostRule::Client);
    assert_eq!(host("host = \"server\""), HostRule::Server);
    for name in ["a.example", "a.example:8080", "[::1]:80", "Client"] {
        assert_eq!(host(&format!("host = \"{name}\"")), HostRule::Named(name.into()));
    }
    for filled in ["{host}", "{host}:{port}", "www.{host}:8080"] {
        let parts = Template::parse_value(filled).unwrap();
        assert_eq!(host(&format!("host = \"{filled}\"")), HostRule::Filled(parts));
    }
    for bad in ["", "a b", "a/b", "a@b", "a\\nb: c", "{uri}", "{host}/", "{{a}}", &"a".repeat(262)] {
        let errors = brief(&pool("http://127.0.0.1:1", &format!("host = \"{bad}\"")));
        let hint = "is not the name of a host | it takes \"client\", \"server\", or a host such as \"app.internal:8080\" or \"{host}:{port}\"";
        assert!(matches!(errors.as_slice(), [one] if one.ends_with(hint)), "{bad}: {errors:?}");
    }
}

#[test]
fn what_is_for_http_servers_has_no_effect_elsewhere() {
    let text = pool("fastcgi://127.0.0.1:1", "host = \"server\"");
    assert_eq!(good(&text).pools[0].external, External::default());
    let shown = "`host` has no effect | it is for a pool with `connect = \"http://…\"` or `\"https://…\"`";
    assert!(warnings(&text).iter().any(|one| one.ends_with(shown)), "{:?}", warnings(&text));
}

#[test]
fn a_header_names_the_client_of_a_connection_that_is_not_shared() {
    let said = |connect: &str, keys: &str| good(&pool(connect, keys)).pools[0].external.proxy_protocol;
    assert_eq!(said("http://127.0.0.1:1", ""), None);
    assert_eq!(said("http://127.0.0.1:1", "proxy_protocol = \"v1\""), Some(ProxyProtocol::V1));
    assert_eq!(said("fastcgi://127.0.0.1:1", "proxy_protocol = \"v2\""), Some(ProxyProtocol::V2));
    assert_eq!(said("https://127.0.0.1:1", "proxy_protocol = \"v2\""), Some(ProxyProtocol::V2));
    let shown = "`proxy_protocol` names one client, and a connection of HTTP/2 has the requests of many | use HTTP/1 (`http://…`, or no \
                 `http2` in `tls`); the servers find the client in `X-Forwarded-For`";
    for (connect, keys) in [("h2://127.0.0.1:1", ""), ("https://127.0.0.1:1", "tls = { http2 = true }")] {
        let errors = brief(&pool(connect, &format!("proxy_protocol = \"v2\"\n{keys}")));
        assert!(matches!(errors.as_slice(), [one] if one.ends_with(shown)), "{errors:?}");
    }
    let text = format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nuser = \"app\"\nproxy_protocol = \"v2\"\n");
    let shown = "`proxy_protocol` has no effect | it is for a pool with `connect` to HTTP or FastCGI servers";
    assert!(warnings(&text).iter().any(|one| one.ends_with(shown)), "{:?}", warnings(&text));
}

#[test]
fn redirects_are_mapped_as_the_pool_says() {
    let external = |keys: &str| good(&pool("http://127.0.0.1:1", keys)).pools[0].external.clone();
    assert!(!external("").maps_nothing());
    assert!(external("map_redirects = false").maps_nothing());
    for keys in ["redirects = { \"/a\" = \"/b\" }", "cookies = { path = { \"/\" = \"/b/\" } }"] {
        assert!(!external(&format!("map_redirects = false\n{keys}")).maps_nothing(), "{keys}");
    }
    assert_eq!(external("map_redirects = \"paths\"").map_redirects, MapRedirects::Paths);
    for (keys, error) in [
        ("redirects = { \"\" = \"/\" }", "`redirects`: \"\" is not the beginning of a path or a URL"),
        ("redirects = { \"/\" = \"a\" }", "`redirects`: \"a\" is not the beginning of a path or a URL"),
        ("redirects = { \"/\" = \"/ b\" }", "`redirects`: \"/ b\" is not the beginning of a path or a URL"),
        (
            "cookies = { path = { \"/\" = \"/; Secure\" } }",
            "`path`: \"/; Secure\" is not the beginning of a path",
        ),
        ("cookies = { domain = { \"\" = \"a\" } }", "`domain`: \"\" is not the beginning of a domain"),
    ] {
        let errors = brief(&pool("http://127.0.0.1:1", keys));
        assert!(matches!(errors.as_slice(), [one] if one.ends_with(error)), "{keys}: {errors:?}");
    }
    let text = format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nuser = \"app\"\nmap_redirects = true\n");
    let shown = "`map_redirects` has no effect | it is for a pool with `connect` to HTTP or FastCGI servers";
    assert!(warnings(&text).iter().any(|one| one.ends_with(shown)), "{:?}", warnings(&text));
}

#[test]
fn a_pool_says_what_is_retried() {
    let retry = |keys: &str| good(&pool("http://127.0.0.1:1", keys)).pools[0].external.retry.clone();
    assert_eq!(retry(""), Retry::default());
    assert_eq!(retry("retry = {}"), Retry::default());
    let found = retry("retry = { on = [\"429\", \"timeout\"], budget_percent = 0 }");
    assert_eq!(
        (found.unreachable, found.broken, found.timeout, found.budget_percent),
        (false, false, true, 0)
    );
    assert_eq!((found.statuses, found.methods), (vec![429], Retry::default().methods));
    for (keys, error) in [
        (
            "on = [\"200\"]",
            "`on` does not take \"200\" | it takes \"unreachable\", \"broken\", \"timeout\", and statuses such as \"503\"",
        ),
        ("methods = [\"get\"]", "`methods`: \"get\" is not a method | it takes names such as \"PUT\""),
        ("methods = [\"\"]", "`methods`: \"\" is not a method | it takes names such as \"PUT\""),
    ] {
        let errors = brief(&pool("http://127.0.0.1:1", &format!("retry = {{ {keys} }}")));
        assert!(matches!(errors.as_slice(), [one] if one.ends_with(error)), "{keys}: {errors:?}");
    }
}
