use super::*;

/// Two listeners, and what else there is.
fn two(rest: &str) -> String {
    format!(
        "[[listen]]\nname = \"outside\"\naddress = \":80\"\n\n[[listen]]\nname = \"inside\"\naddress = [\"10.0.0.1:8080\", \"unix:/run/in.sock\"]\n\n{rest}"
    )
}

fn site(keys: &str) -> String {
    format!("[[site]]\nroot = \"www\"\n{keys}\n")
}

#[test]
fn a_site_names_its_listeners() {
    let text = site("hosts = [\"a.test\"]\nlisten = \"outside\"")
        + &site("hosts = [\"a.test\"]\nlisten = [\"unix:/run/in.sock\", \"10.0.0.1:8080\", \"inside\"]")
        + &site("hosts = [\"b.test\"]");
    let config = good(&two(&text));
    let listens: Vec<_> = config.sites.iter().map(|site| site.listens.as_deref()).collect();
    assert_eq!(listens, [Some(&[0][..]), Some(&[1, 2]), None]);
    assert!(config.sites[1].answers_at(2) && !config.sites[1].answers_at(0) && config.sites[2].answers_at(0));
    let names: Vec<_> = config.listens.iter().map(|listen| listen.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["outside", "inside", "inside"]);
}

#[test]
fn what_is_wrong_with_the_listeners_of_a_site_is_said() {
    assert_eq!(
        brief(&two(&(site("listen = \"outsid\"") + &site("hosts = [\"b\"]")))),
        ["11:10 `listen`: there is no [[listen]] \"outsid\" | did you mean \"outside\"?"]
    );
    assert_eq!(
        brief(&two(&(site("listen = \":81000\"") + &site("hosts = [\"b\"]")))),
        [
            "11:10 `listen`: there is no [[listen]] \":81000\" | it takes the `name` of a [[listen]], or an address as it stands there: \
          \"outside\", \"inside\", \"0.0.0.0:80\", \"10.0.0.1:8080\", \"unix:/run/in.sock\""
        ]
    );
    assert_eq!(
        brief(&two(&(site("listen = []") + &site("hosts = [\"b\"]"))))[0],
        "11:10 `listen` is empty, so that no request reaches this site | name a [[listen]], or take it out: a site without it \
         answers at all"
    );
    // Each listener has a site, and one of the same name only once.
    assert_eq!(
        brief(&two(&site("listen = \"outside\""))),
        [
            "7:12 no site answers at 10.0.0.1:8080 | name it in `listen` of a [[site]], or add a [[site]] without `listen`",
            "7:29 no site answers at unix:/run/in.sock | name it in `listen` of a [[site]], or add a [[site]] without `listen`",
        ]
    );
    assert_eq!(
        brief(&two(&(site("hosts = [\"a\"]\nlisten = \"inside\"") + &site("hosts = [\"a\"]")))),
        ["15:10 the host \"a\" is named twice"]
    );
    good(&two(&(site("listen = \"outside\"") + &site("listen = \"inside\"") + &site("hosts = [\"a\"]"))));
    assert_eq!(
        brief(&two(&(site("") + &site("listen = \"inside\"")))),
        [
            "12:1 this site has no `hosts`, so that no request reaches it | only the first site of a listener can do without: it \
          takes what no other one there names"
        ]
    );
    let twice = two(&site("")).replace("\"inside\"", "\"outside\"");
    assert_eq!(brief(&twice), ["6:8 two listeners have the name \"outside\""]);
    assert_eq!(
        brief(&two(&site("")).replace("\"inside\"", "\"in side\"")),
        [
            "6:8 `name`: \"in side\" cannot be the name of a listener | it has 1 to 64 letters, digits, `-` and `_`"
        ]
    );
    // An address with a redirect needs none.
    let redirects = "[[listen]]\naddress = \":80\"\nredirect_http = true\n[[listen]]\naddress = \":443\"\ntls = {}\n[acme]\nagree = true\n";
    good(&format!("{redirects}{}", site("hosts = [\"a.test\"]\nacme = true\nlisten = \":443\"")));
    assert_eq!(
        brief(&format!("{redirects}{}", site("hosts = [\"a.test\"]\nacme = true\nlisten = \":80\"")))[0],
        "5:11 no site answers at 0.0.0.0:443 | name it in `listen` of a [[site]], or add a [[site]] without `listen`"
    );
}

#[test]
fn conditions_that_no_listener_meets_are_errors() {
    let with = |of_site: &str, conditions: &str| {
        two(&(site(of_site)
            + &format!("[[site.route]]\npath = \"/x\"\nmatch = {{ {conditions} }}\nrespond = {{}}\n")
            + &site("hosts = [\"rest.test\"]")))
    };
    for conditions in [
        "listener = \"inside\"",
        "listener = [\"outside\", \"unix:/run/in.sock\"], local_port = 80",
        "local_port = 8080",
        "tls = false",
        "client_certificate = false",
        "any = [{ listener = \"inside\" }, { local_port = 80 }]",
        "not = [{ tls = true }]",
    ] {
        good(&with("", conditions));
    }
    for (of_site, conditions, named) in [
        ("", "tls = true", "`tls`"),
        ("", "local_port = 443", "`local_port`"),
        ("", "listener = \"inside\", local_port = 80", "`listener` and `local_port`"),
        ("listen = \"outside\"", "listener = \"inside\"", "`listener`"),
        ("", "listener = \"outside\", any = [{ local_port = 8080 }]", "`local_port`"),
    ] {
        let found = brief(&with(of_site, conditions));
        let expected = format!(
            "no request reaches this route: no listener of its site has {named} as it stands here | a route gets what comes in by the \
             listeners of its site (`listen`)"
        );
        assert!(found.len() == 1 && found[0].ends_with(&expected), "{conditions}: {found:#?}");
    }
    let found = brief(&with("", "client_certificate = true"));
    assert!(
        found[0].ends_with("| clients show certificates where `tls` of the [[listen]] has `client_auth`"),
        "{found:?}"
    );
    let found = brief(&with("", "listener = \"insid\""));
    assert!(found.len() == 1 && found[0].ends_with("| did you mean \"inside\"?"), "{found:?}");
}

#[test]
fn a_route_behind_one_with_as_wide_a_condition_is_never_reached() {
    let routes = |earlier: &str, later: &str| {
        let route = |conditions: &str| {
            format!("[[site.route]]\npath = \"/x\"\nmatch = {{ {conditions} }}\nrespond = {{}}\n")
        };
        two(&(site("") + &route(earlier) + &route(later)))
    };
    for (earlier, later) in [
        ("listener = \"inside\"", "listener = \"inside\""),
        ("listener = \"inside\"", "local_port = 8080"),
        ("listener = [\"inside\", \"outside\"]", "header = { A = \"1\" }"),
        ("tls = false", "cookie = { a = \"1\" }"),
        ("header = { A = \"1\" }", "header = { A = \"1\" }, listener = \"inside\""),
        ("header = { A = \"1\" }, tls = false", "header = { A = \"1\" }"),
    ] {
        let found = brief(&routes(earlier, later));
        assert_eq!(found.len(), 1, "{earlier} {later}: {found:?}");
        assert!(found[0].contains("no request reaches this route: an earlier one takes"), "{found:?}");
    }
    for (earlier, later) in [
        ("listener = \"inside\"", "listener = \"outside\""),
        ("local_port = 8080", "listener = \"inside\""),
        ("header = { A = \"1\" }", "header = { A = \"2\" }"),
        ("header = { A = \"1\" }, listener = \"inside\"", "header = { A = \"1\" }"),
        ("not = [{ local_port = 80 }]", "listener = \"inside\""),
    ] {
        good(&routes(earlier, later));
    }
}

#[test]
fn a_user_needs_a_gate_that_finds_one() {
    let text = |of_site: &str, of_route: &str| {
        format!(
            "{START}{}[[site.route]]\npath = \"/x\"\nmatch = {{ user = \"ann\" }}\n{of_route}\n",
            site(of_site)
        )
    };
    let basic = "basic_auth = { users_file = \"users\" }";
    let missing = "7:18 `user`: nothing asks who the client is, so that every request would get 403 | add `basic_auth`, `jwt` or \
                   `forward_auth` to the route or its site";
    assert_eq!(brief(&text("", "respond = {}")), [missing]);
    good(&text(basic, "respond = {}"));
    let found = brief(&text(basic, "respond = {}\nbasic_auth = \"off\""));
    assert!(found.iter().any(|error| error.contains("nothing asks who the client is")), "{found:?}");
    let found = brief(&text(basic, "reroute = \"/y\""));
    assert!(
        found.iter().any(|error| error.contains("`user` has no effect on a route with `reroute`")),
        "{found:?}"
    );
}

#[test]
fn nothing_is_decided_by_what_a_client_writes() {
    let route = |conditions: &str| {
        format!(
            "{START}{}[[site.route]]\npath = \"/x\"\nmatch = {{ {conditions} }}\nrespond = {{}}\n",
            site("")
        )
    };
    for (field, hint) in [
        ("X-SSL-Client-Verify", "`client_certificate`"),
        ("x_ssl_client_verify", "`client_certificate`"),
        ("X-TLS-Client-Cert", "`client_certificate`"),
        ("X-Remote-User", "`user`"),
        ("Remote-User", "`user`"),
        ("X-Auth-Request-Email", "`user`"),
        ("X-Forwarded-User", "`user`"),
        ("X-Forwarded-For", "`client`"),
        ("X-Real-IP", "`client`"),
        ("CF-Connecting-IP", "`client`"),
        ("X-Forwarded-Proto", "`scheme`"),
        ("X-Forwarded-Host", "`hosts`"),
        ("X-Forwarded-Port", "`local_port`"),
        ("X-Original-URL", "`path`"),
        ("Forwarded", "use a field"),
        ("X-Request-Id", "use a field"),
    ] {
        for conditions in [
            format!("header = {{ \"{field}\" = \"*\" }}"),
            format!("any = [{{ header = {{ \"{field}\" = \"1\" }} }}]"),
            format!("not = [{{ header = {{ \"{field}\" = \"1\" }} }}]"),
        ] {
            let found = brief(&route(&conditions));
            let expected = format!("`header`: `{field}` is what any client can write | {hint}");
            assert!(found.len() == 1 && found[0].contains(&expected), "{conditions}: {found:?}");
        }
    }
    good(&route("header = { X-Api-Key = \"*\", Host = \"a\" }"));
    good(&route("share = \"1%\", share_by = \"header:X-Request-Id\""));
    let pool = "[pool.a]\nconnect = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]\n";
    for (text, key, hint) in [
        (route("share = \"1%\", share_by = \"header:X-Real-IP\""), "share_by", "\"client\""),
        (
            format!("{COMPLETE}[limit.x]\nrate = \"1/s\"\nkey = \"header:X-Forwarded-For\"\n"),
            "key",
            "\"address\"",
        ),
        (
            format!("{COMPLETE}[limit.x]\nrate = \"1/s\"\nkey = \"header:X-Remote-User\"\n"),
            "key",
            "\"address\"",
        ),
        (
            format!("{COMPLETE}{pool}balance = \"hash\"\nhash_key = \"header:X-Forwarded-For\"\n"),
            "hash_key",
            "\"client\"",
        ),
        (
            format!(
                "{START}{pool}[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"a\"\ncache = {{ key_headers = [\"X-Forwarded-Host\"] }}\n"
            ),
            "key_headers",
            "scheme, host and path",
        ),
        (
            format!(
                "{START}[[site]]\nroot = \"www\"\nforward_auth = {{ url = \"http://127.0.0.1:1/\", cache = {{ key = [\"header:X-Real-IP\", \"header:Cookie\"] }} }}\n"
            ),
            "key",
            "\"client\"",
        ),
    ] {
        let found = brief(&text);
        let is = |error: &String| {
            error.contains(&format!("`{key}`: `"))
                && error.contains("is what any client can write")
                && error.contains(hint)
        };
        assert!(found.iter().any(is), "{text}: {found:#?}");
    }
}

#[test]
fn trusted_fields_are_names_of_fields_of_others() {
    let pool = |fields: &str| {
        format!("{COMPLETE}[pool.a]\nconnect = \"http://127.0.0.1:1\"\ntrusted_fields = [\"{fields}\"]\n")
    };
    for good_one in ["X-Remote-User", "x-auth-request-*", "OIDC_CLAIM_*", "X-My-User"] {
        good(&pool(good_one));
    }
    for (name, why) in [
        ("*", "is not the name of a field"),
        ("a b", "is not the name of a field"),
        ("X-*-User", "is not the name of a field"),
        ("X-Forwarded-For", "is written by Maitred"),
        ("X-SSL-*", "is written by Maitred"),
        ("Connection", "is never passed on as it was sent"),
    ] {
        let found = brief(&pool(name));
        assert!(found.len() == 1 && found[0].contains(why), "{name}: {found:?}");
    }
}
