use super::*;

fn site(rest: &str) -> String {
    format!("{START}[[site]]\nroot = \"www\"\n{rest}")
}

const POOL: &str = "[pool.web]\ncommand = [\"app\"]\nmount = \"/app\"\n";

#[test]
fn a_route_has_one_target_that_exists() {
    let text = site(&format!(
        "[[site.route]]\npath = \"/a\"\n[[site.route]]\npath = \"/b\"\nredirect = \"/x\"\npool = \"web\"\n\
         [[site.route]]\npath = \"/app/*\"\npool = \"wbe\"\n[[site.route]]\npath = \"/c\"\npool = \"php\"\n\
         [[site.route]]\npath = \"/d\"\npool = \"web\"\n[[site.route]]\npool = \"web\"\n{POOL}"
    ));
    assert_eq!(
        brief(&text),
        [
            "4:1 this route does not say what answers | add one of `root`, `redirect`, `respond`, \
             `pool`, `reroute` and `module`",
            "7:8 this path is not below \"/app\", where pool \"web\" is mounted | write \"/app/*\", or change `mount`",
            "9:1 a route has one target, and this one has `redirect` and `pool`",
            "12:8 there is no pool \"wbe\" | did you mean \"web\"?",
            "15:8 there is no pool \"php\" | add [pool.php] with the command to start",
            "17:8 this path is not below \"/app\", where pool \"web\" is mounted | write \"/app/*\", or change `mount`",
            "19:1 [[site.route]] has no `path` | `path` takes \"/exact\", \"/prefix/*\", \"*.php\"; for any path, write \
             path = \"*\"",
        ]
    );
}

#[test]
fn a_route_that_is_never_reached_is_an_error() {
    let text = site(
        "[[site.route]]\npath = \"/a/*\"\nredirect = \"/x\"\n[[site.route]]\npath = \"/a/b\"\nredirect = \"/y\"\n",
    );
    assert_eq!(
        errors(&text),
        "\
error: no request reaches this route: an earlier one takes all its paths and methods
 --> maitred.toml:8:8
  |
8 | path = \"/a/b\"
  |        ^^^^^^
  = note: the first route that matches path and method decides
 --> maitred.toml:5:8
  |
5 | path = \"/a/*\"
  |        ^^^^^^

maitred.toml: 1 error
"
    );
    let methods = site(
        "[[site.route]]\npath = \"/a/*\"\nmethods = [\"POST\"]\nredirect = \"/x\"\n[[site.route]]\npath = \"/a/b\"\n\
         redirect = \"/y\"\n",
    );
    good(&methods);
    assert_eq!(
        brief(&methods.replace("redirect = \"/y\"", "redirect = \"/y\"\nmethods = [\"POST\"]")).len(),
        1
    );
    good(&site(
        "[[site.route]]\npath = \"/a/b\"\nredirect = \"/x\"\n[[site.route]]\npath = \"/a/*\"\nredirect = \"/y\"\n",
    ));
}

#[test]
fn keys_of_another_target_are_errors() {
    let text = site(
        "[[site.route]]\npath = \"/a\"\nredirect = \"/x\"\nlisting = true\nstrip_prefix = \"/a/\"\n\
         [[site.route]]\npath = \"/b\"\nroot = \"b\"\nstatus = 301\n",
    );
    assert_eq!(
        brief(&text),
        [
            "7:1 `listing` goes with `root`, which this route does not have",
            "8:1 `strip_prefix` goes with `root` or `pool`, which this route does not have",
            "12:1 `status` goes with `redirect`, which this route does not have",
        ]
    );
}

#[test]
fn conditions_and_rewrites_are_checked() {
    let text = site(&format!(
        "[[site.route]]\npath_regex = '^/(a'\nreroute = \"x{{capture.1}}\"\n\
         [[site.route]]\npath = []\nmatch = {{ header = {{ \"a b\" = \"*\", c = \"~(\" }}, client = [\"x\"], any = [{{}}] }}\n\
         redirect = \"/x{{nothing}}\"\n\
         [[site.route]]\npath = \"/app/*\"\npool = \"web\"\nstrip_prefix = \"/c/\"\nrewrite = \"/a/../b\"\n\
         replace_prefix = \"v2\"\nquery = {{ set = {{ q = \"{{capture.1}}\" }} }}\n\
         [[site.route]]\npath = \"/d\"\npool = \"web\"\nreplace_prefix = \"/x/\"\nrewrite = \"b\"\n\
         [[site.route]]\npath = \"/e\"\nroot = \"www\"\ntry = [\"pool:web\", \"pool:none\"]\n{POOL}"
    ));
    assert_eq!(
        brief(&text),
        [
            "5:14 `path_regex`: \"^/(a\" is not a regular expression | unclosed group",
            "6:11 `reroute`: \"x{capture.1}\" is not a path | `{capture.…}` refers to `path_regex`, which this route does \
             not have",
            "8:8 `path` has no pattern",
            "9:22 `header`: \"a b\" cannot be a name | a name has letters, digits and `-`",
            "9:39 `header`: \"(\" is not a regular expression | unclosed group",
            "9:57 `client`: \"x\" is not a network | `x` is not an IP address",
            "9:70 this table has no condition, so that it would hold for every request | add one, or take the table out",
            "10:12 `redirect`: \"/x{nothing}\" is not a place to redirect to | the placeholders are {path}, {query}, {uri}, \
             {host}, {port}, {scheme}, {client}, {capture.N}, {header.NAME} and {query.NAME}",
            "14:16 `path` also takes paths that do not start with \"/c/\"",
            "15:11 `rewrite`: \"/a/../b\" is not a path | a path has no `..`, no `#` and no control characters",
            "16:18 `replace_prefix`: \"v2\" is not the start of a path | it starts and ends with `/`: \"/v2/\"",
            "17:23 `set`: \"{capture.1}\" cannot be a value | `{capture.…}` refers to `path_regex`, which this route does \
             not have",
            "21:1 `replace_prefix` takes the place of `strip_prefix`, which this route does not have",
            "22:11 `rewrite`: \"b\" is not a path | it starts with `/`, `{path}` or `{uri}`",
            "26:8 `try`: nothing is tried after \"pool:web\"",
            "26:20 there is no pool \"none\" | add [pool.none] with the command to start",
        ]
    );
}

#[test]
fn shares_are_percentages() {
    let text = |conditions: &str| {
        site(&format!("[[site.route]]\npath = \"/x\"\nmatch = {{ {conditions} }}\nredirect = \"/y\"\n"))
    };
    for share in ["0%", "100%", "99.99 %", "0.5%"] {
        good(&text(&format!("share = \"{share}\"")));
    }
    let hint = "it takes 0% to 100%, with two decimals at the most";
    for share in ["10", "101%", "100.01%", "-1%", "1.%", "1.005%", "%", "1e1%"] {
        let expected = format!("6:19 `share`: \"{share}\" is no percentage | {hint}");
        assert_eq!(brief(&text(&format!("share = \"{share}\""))), [expected]);
    }
    assert_eq!(
        brief(&text("share = \"1%\", share_by = \"cookie:\"")),
        [
            "6:36 `share_by`: \"cookie:\" is nothing to tell clients apart by | it takes \"client\", \"header:NAME\" or \
          \"cookie:NAME\""
        ]
    );
    assert_eq!(
        brief(&text("share_by = \"client\"")),
        ["6:22 `share_by` without `share` has no effect | add `share`, such as \"10%\""]
    );
}

#[test]
fn a_route_with_conditions_covers_no_other_one() {
    for condition in ["path_regex = 'a'\n", "match = { scheme = \"https\" }\n"] {
        good(&site(&format!(
            "[[site.route]]\npath = \"/a/*\"\n{condition}redirect = \"/x\"\n[[site.route]]\npath = \"/a/b\"\nredirect = \"/y\"\n"
        )));
    }
    let several = "[[site.route]]\npath = [\"/a/*\", \"/b/*\"]\nredirect = \"/x\"\n\
                   [[site.route]]\npath = [\"/a/b\", \"/b/c\"]\nredirect = \"/y\"\n";
    assert_eq!(brief(&site(several)).len(), 1, "each of its paths is taken");
    good(&site(&several.replace("\"/b/c\"", "\"/c\"")));
}

#[test]
fn values_of_routes_are_checked() {
    let text = site(
        "[[site.route]]\npath = \"a\"\nmethods = [\"get\", \"A B\", \"PUT\", \"PUT\"]\nredirect = \"/{host}\"\n\
         status = 304\n[[site.route]]\npath = \"/b\"\nrespond = { status = 204, body = \"x\", content_type = \"text\" }\n\
         [[site.route]]\npath = \"/c/*\"\nroot = \"missing\"\nstrip_prefix = \"/d/\"\n\
         [[site.route]]\npath = \"/e/*\"\nroot = \"e\"\nstrip_prefix = \"e\"\n",
    );
    assert_eq!(
        brief(&text),
        [
            "5:8 `path`: \"a\" is not a pattern | it starts with `/`: write \"/a\"",
            "6:12 `methods`: methods are in capital letters, and \"get\" is not | write \"GET\"",
            "6:19 `methods`: \"A B\" is not a method",
            "6:33 `methods` names \"PUT\" twice",
            "7:12 `redirect`: \"/{host}\" is not a place to redirect to | a client could make it lead to any host: \
             start it with \"https://example.com\" or \"https://{host}\", or with a path of its own before the placeholder",
            "8:10 `status`: 304 is not the status of a redirect | it takes 301, 302, 303, 307 or 308",
            "11:34 a response with status 204 has no body",
            "11:54 `content_type`: \"text\" is not a media type | it looks like \"text/html; charset=utf-8\"",
            "14:8 `root`: there is no such directory: /etc/maitred/missing | a relative path starts at the directory \
             of the configuration file",
            "15:16 `path` also takes paths that do not start with \"/d/\"",
            "19:16 `strip_prefix`: \"e\" is not the start of a path | it starts and ends with `/`: \"/static/\"",
        ]
    );
}

#[test]
fn values_of_files_are_checked() {
    let text = site(
        "index = [\"a/b\"]\nsymlinks = \"everywhere\"\nprecompressed = [\"br\", \"br\", \"deflate\"]\n\
         try = [\"{path}\", \"=200\", \"=404\", \"x\", \"/../x\", \"{a}\"]\n\
         headers = { set = { \"X:\" = \"1\", A = \" 1\", b = \"2\", Content-Length = \"3\" }, remove = [\"B\", \"connection\"] }\n\
         error_pages = { 200 = \"/ok.html\", 404 = \"404.html\" }\n",
    );
    assert_eq!(
        brief(&text),
        [
            "4:10 `index`: \"a/b\" is not a file name | it takes names without `/`, such as \"index.html\"",
            "5:12 `symlinks` does not take \"everywhere\" | it takes \"inside\", \"anywhere\"",
            "6:24 `precompressed` names \"br\" twice",
            "6:30 `precompressed` does not take \"deflate\" | it takes \"br\", \"zstd\", \"gzip\"",
            "7:18 `try` does not take \"=200\" | after `=` stands a status from 400 to 599",
            "7:26 `try`: nothing is tried after \"=404\"",
            "7:34 `try` does not take \"x\" | it starts with `/`: write \"/x\"",
            "7:39 `try` does not take \"/../x\" | a path has no `..` in it",
            "7:48 `try` does not take \"{a}\" | the only placeholder is `{path}`, once",
            "8:21 \"X:\" cannot be the name of a header field | a name has letters, digits and `-`, and no colon",
            "8:37 `set`: this cannot be the value of `A` | a value has no control characters, and no white space at \
             its ends",
            "8:52 `Content-Length` is written by Maitred and cannot be changed | fields that delimit a message, or are about \
             one connection, and `Date`, are facts",
            "8:86 `B` is both set and removed | `set` replaces what is there already",
            "8:91 `connection` is written by Maitred and cannot be changed | fields that delimit a message, or are about \
             one connection, and `Date`, are facts",
            "9:17 `error_pages`: \"200\" is not a status of an error | it takes 400 to 599",
            "9:41 `error_pages`: \"404.html\" is not the path of a page | it starts with `/`, as in \"/404.html\", \
             and is looked up below the site's `root`",
        ]
    );
}

#[test]
fn sites_are_told_apart() {
    let text = format!(
        "{START}[[site]]\nhosts = [\"http://a\", \"*\", \"b:80\"]\nroot = \"a\"\n[[site]]\nroot = \"b\"\n\
         [[site]]\nhosts = [\"c\"]\nlisting = true\nerror_pages = {{ 404 = \"/x\" }}\nroute = [{{ path = \"/\", redirect = \"/x\" }}]\n"
    );
    assert_eq!(
        brief(&text),
        [
            "3:10 `hosts`: \"http://a\" is not a host name | write the name alone, without \"http://\"",
            "3:22 `hosts`: \"*\" is not a host name | the first site takes what no other site names, also without \
             `hosts`",
            "3:27 `hosts`: \"b:80\" is not a host name | a port makes no difference here: write \"b\"",
            "5:1 this site has no `hosts`, so that no request reaches it | only the first site can do without: it \
             takes what no other site names",
            "9:1 `listing` is about files, and this site has none | add `root`, or take it out",
            "10:1 `error_pages` are files of the site, and this site has no `root` | add `root`: the pages are looked \
             up below it",
        ]
    );
}

#[test]
fn an_address_stands_once() {
    let text =
        "[[listen]]\naddress = \":80\"\n[[listen]]\naddress = \"0.0.0.0:80\"\n[[site]]\nroot = \"a\"\n";
    assert_eq!(brief(text), ["4:11 the address 0.0.0.0:80 is listed twice"]);
    good("[[listen]]\naddress = \":0\"\n[[listen]]\naddress = \":0\"\n[[site]]\nroot = \"a\"\n");
}

#[test]
fn an_entry_can_have_several_addresses() {
    let text =
        |addresses: &str| format!("[[listen]]\naddress = {addresses}\nbacklog = 7\n[[site]]\nroot = \"a\"\n");
    let config = good(&text("[\":80\", \"[::]:8080\"]"));
    let shown: Vec<_> =
        config.listens.iter().map(|listen| (listen.address.to_string(), listen.backlog)).collect();
    assert_eq!(shown, [("0.0.0.0:80".to_owned(), 7), ("[::]:8080".to_owned(), 7)]);
    assert_eq!(brief(&text("[\":80\", \"0.0.0.0:80\"]")), ["2:19 the address 0.0.0.0:80 is listed twice"]);
    assert_eq!(
        brief(&text("[\":80\", \"x\", 1]")),
        [
            "2:19 `address`: \"x\" is not an address to listen on | write an address and a port, such as \"0.0.0.0:8080\", \
             \"[::1]:8080\" or \":8080\"",
            "2:24 `address`: expected strings in this array, found a whole number",
        ]
    );
    assert_eq!(
        brief(&text("[]"))[0],
        "2:11 `address` is empty | it takes at least one address, such as \":8080\""
    );
}

#[test]
fn the_field_of_the_clients_address_is_a_name_that_proxies_can_own() {
    let text = |name: &str| {
        format!("{COMPLETE}[server]\ntrusted_proxies = [\"::1\"]\nclient_address_from = \"{name}\"\n")
    };
    good(&text("X-Real-IP"));
    assert_eq!(
        brief(&text("X Real")),
        [
            "5:23 `client_address_from` does not take \"X Real\" | it takes the name of a field, such as \"CF-Connecting-IP\""
        ]
    );
    assert_eq!(
        brief(&text("X_Real_IP")),
        [
            "5:23 `client_address_from` does not take \"X_Real_IP\" | a name with `_` or `.` is never trusted: proxies take it for \
             `-`"
        ]
    );
    let (_, warnings) = read_as(&text("X-A").replace("\"::1\"", ""), false).unwrap();
    assert!(
        one_line(&warnings[0].0).contains("`client_address_from` has no effect | without `trusted_proxies`")
    );
}

#[test]
fn limits_are_held_against_each_other() {
    assert_eq!(
        brief(&format!("{COMPLETE}[limits]\ntarget_bytes_max = \"32KiB\"\n")),
        [
            "4:20 `target_bytes_max` is above `head_bytes_max` | set `target_bytes_max` and `head_bytes_max` together"
        ]
    );
    assert_eq!(
        brief(&format!("{COMPLETE}[limits]\ninline_file_bytes_max = 11\nfile_cache_bytes_max = 10\n")),
        ["4:25 `inline_file_bytes_max` is above `file_cache_bytes_max`"]
    );
}

#[test]
fn values_of_fields_have_known_placeholders() {
    let of = |keys: &str| {
        format!(
            "listen = [{{ address = \":1\" }}]\n[pool.app]\nconnect = \"http://127.0.0.1:1\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
             pool = \"app\"\n{keys}\n"
        )
    };
    for (keys, why) in [
        (
            "request_headers = { set = { X-A = \"{path}\" } }",
            "`set`: this cannot be the value of `X-A` | the placeholders are {client}",
        ),
        (
            "response_headers = { set = { NEL = '{\"a\":1}' } }",
            "cannot be the value of `NEL` | the placeholders are",
        ),
        (
            "response_headers = { add = { X-A = \"a}\" } }",
            "`add`: this cannot be the value of `X-A` | `}` stands only",
        ),
        (
            "response_headers = { if_absent = { X-A = \"{host}\" } }",
            "values of `if_absent` have no placeholders",
        ),
        ("request_headers = { set = { Host = \"{host}\" } }", "`Host` cannot be \"{host}\""),
        ("request_headers = { set = { X-Forwarded-For = \"{client}\" } }", "says who the client is"),
        ("request_headers = { set = { X-Forwarded-Proto = \"https\" } }", "says who the client is"),
        ("request_headers = { set = { X_Real_IP = \"{client}\" } }", "says who the client is"),
        ("request_headers = { remove = [\"X-Real-IP\"] }", "says who the client is"),
        (
            "request_headers = { set = { X-A = \"{client}\" }, remove = [\"x-a\"] }",
            "`x-a` is both set and removed",
        ),
    ] {
        let found = brief(&of(keys));
        assert!(found.len() == 1 && found[0].contains(why), "{keys}: {found:?}");
    }
    assert!(
        read_as(
            &of("request_headers = { set = { X-Real-IP = \"{client}\", X-Forwarded-Port = \"{port}\" } }"),
            false
        )
        .is_ok()
    );
    let warned = |keys: &str| {
        let (_, warnings) = read_as(&of(keys), false).unwrap();
        warnings.iter().any(|warning| one_line(&warning.0).contains("the pool gets who asks"))
    };
    assert!(warned("cache = true\nrequest_headers = { set = { X-A = \"{user}\" } }"));
    assert!(!warned("cache = true\nrequest_headers = { set = { X-A = \"{uri}\" } }"));
    assert!(!warned("request_headers = { set = { X-A = \"{user}\" } }"));
}

#[test]
fn a_pool_that_files_lead_to_is_not_left_over() {
    let pool = "[pool.web]\ncommand = [\"true\"]\n[server]\nshare_user = true\n";
    let warned = |site: &str| {
        let (_, warnings) =
            read_as(&format!("[[listen]]\naddress = \":80\"\n[[site]]\n{site}\n{pool}"), false).unwrap();
        warnings.iter().any(|warning| one_line(&warning.0).contains("no route leads to"))
    };
    assert!(warned("root = \"/srv\""));
    assert!(!warned("root = \"/srv\"\ntry = [\"{path}\", \"pool:web\"]"));
    let route = "[[site.route]]\npath = \"/*\"\nroot = \"/srv\"\ntry = [\"{path}\", \"pool:web\"]";
    assert!(!warned(route));
}

#[test]
fn warnings_do_not_stop_anything() {
    let text = format!(
        "{COMPLETE}[server]\nuser = \"www-data\"\n[log]\naccess = \"off\"\naccess_file = \"a.log\"\n[pool.web]\ncommand = [\"missing\"]\n"
    );
    let (config, warnings) = read_as(&text, false).unwrap();
    assert_eq!(config.server.user.map(|user| user.uid), Some(33));
    let shown: Vec<_> = warnings.iter().map(|warning| one_line(&warning.0)).collect();
    assert_eq!(
        shown,
        [
            "4:8 `user` has no effect | only root can change to another user, and this is not root",
            "7:15 `access_file` has no effect | `access = \"off\"` writes no access log",
            "8:7 no route leads to [pool.web] | add [[site.route]] with pool = \"web\"",
            "8:7 [pool.web] has no `user`, and the worker process shares its account with no pool: an error when root starts the \
             server | add user = \"…\" to it, or share_user = true to [server]",
            "9:12 `command`: there is no program missing | it is looked for in the directories of PATH, as Maitred has it",
        ]
    );
    assert!(warnings[0].to_string().starts_with("warning: `user` has no effect\n --> maitred.toml:4:8\n"));
}

#[test]
fn http_servers_have_no_processes_and_a_queue_if_they_have_bounds() {
    let text = format!(
        "{START}[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"web\"\n[pool.web]\nconnect = \"http://127.0.0.1:1\"\n"
    );
    let (config, warnings) = read_as(&text, false).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(config.pools[0].workers.slots(), 0);
    let (_, warnings) = read_as(&format!("{text}queue = {{ max = 5 }}\n"), false).unwrap();
    assert!(one_line(&warnings[0].0).contains("`queue` has no effect"));
    let bounded =
        text.replace("\"http://127.0.0.1:1\"", "[{ url = \"http://127.0.0.1:1\", max_connections = 2 }]");
    assert!(read_as(&format!("{bounded}queue = {{ max = 5 }}\n"), false).unwrap().1.is_empty());
    for line in ["transport = \"direct\"", "health_interval = \"1s\"", "env = { A = \"b\" }"] {
        let (_, warnings) = read_as(&format!("{text}{line}\n"), false).unwrap();
        assert!(
            warnings.len() == 1 && one_line(&warnings[0].0).contains("has no effect"),
            "{line}: {warnings:?}"
        );
    }
    let (config, _) = read_as(&format!("{text}connect_timeout = \"250ms\"\n"), false).unwrap();
    assert_eq!(config.pools[0].connect_timeout, std::time::Duration::from_millis(250));
    let processes =
        text.replace("connect = \"http://127.0.0.1:1\"", "command = [\"true\"]\nconnect_timeout = 1");
    let (_, warnings) = read_as(&processes, false).unwrap();
    assert!(warnings.iter().any(|warning| one_line(&warning.0).contains("`connect_timeout` has no effect")));
    assert!(brief(&format!("{text}workers = 2\n"))[0].contains("`workers` is for application processes"));
}

#[test]
fn only_named_proxies_may_send_a_proxy_header() {
    let text = |listen: &str, server: &str| {
        format!("[[listen]]\naddress = \":1\"\n{listen}[[site]]\nroot = \"www\"\n[server]\n{server}")
    };
    let from = |text: &str| {
        let from = good(text).listens[0].proxy_protocol_from.clone().unwrap();
        from.iter().map(|(address, bits)| format!("{address}/{bits}")).collect::<Vec<_>>()
    };
    assert_eq!(from(&text("proxy_protocol = true\n", "")), ["127.0.0.0/8", "::1/128"]);
    assert_eq!(
        from(&text("proxy_protocol = true\n", "trusted_proxies = [\"10.0.0.0/8\"]\n")),
        ["127.0.0.0/8", "::1/128", "10.0.0.0/8"]
    );
    let named = "proxy_protocol = true\nproxy_protocol_from = [\"10.0.0.7\"]\n";
    assert_eq!(from(&text(named, "trusted_proxies = [\"10.0.0.0/8\"]\n")), ["10.0.0.7/32"]);
    assert_eq!(
        brief(&text("proxy_protocol = true\nproxy_protocol_from = []\n", "")),
        [
            "4:23 `proxy_protocol_from` is empty, so that no client could connect | name the proxies that connect to this \
          address"
        ]
    );
    let (_, warnings) = read_as(&text("proxy_protocol_from = [\"10.0.0.7\"]\n", ""), true).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn an_isolated_pool_is_not_direct() {
    let text = site(
        "[[site.route]]\npath = \"/*\"\npool = \"web\"\n[pool.web]\ncommand = [\"app\"]\nisolate = true\n\
         transport = \"direct\"\n",
    );
    assert_eq!(
        brief(&text),
        ["10:13 `transport = \"direct\"` gives clients' sockets to the processes of an isolated pool"]
    );
    assert_eq!(good(&text.replace("direct", "auto")).pools[0].transport, Transport::Relay);
}

#[test]
fn an_inline_body_is_one_in_memory() {
    let text = format!("{COMPLETE}[limits]\nbody_memory_bytes_max = 1000\n");
    assert_eq!(
        brief(&text),
        ["4:25 `body_inline_bytes_max` is above `body_memory_bytes_max` | set `body_inline_bytes_max` and \
          `body_memory_bytes_max` together"]
    );
    good(&format!("{text}body_inline_bytes_max = 1000\n"));
}

#[test]
fn the_room_for_bodies_holds_the_largest_one() {
    let text = format!("{COMPLETE}[limits]\nbodies_disk_bytes_max = \"8MiB\"\n");
    assert_eq!(
        brief(&text),
        [
            "4:25 `body_bytes_max` is above `bodies_disk_bytes_max` | set `body_bytes_max` and `bodies_disk_bytes_max` \
          together"
        ]
    );
    good(&format!("{text}body_bytes_max = \"8MiB\"\n"));
    let text = format!("{COMPLETE}[limits]\nbodies_memory_bytes_max = 0\n");
    assert_eq!(
        brief(&text),
        [
            "4:27 `body_memory_bytes_max` is above `bodies_memory_bytes_max` | set `body_memory_bytes_max` and \
          `bodies_memory_bytes_max` together"
        ]
    );
}

#[test]
fn what_one_connection_has_unsent_is_no_more_than_what_all_have() {
    let text = format!("{COMPLETE}[limits]\nunsent_memory_bytes_max = \"1MiB\"\n");
    assert_eq!(
        brief(&text),
        [
            "4:27 `unsent_connection_bytes_max` is above `unsent_memory_bytes_max` | set `unsent_connection_bytes_max` and \
          `unsent_memory_bytes_max` together"
        ]
    );
    good(&format!("{text}unsent_connection_bytes_max = \"1MiB\"\n"));
}

#[test]
fn the_example_about_uploads_is_good() {
    let manual = include_str!("../../../../docs/applications.md");
    let section = manual.split("## Request bodies\n").nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    // What the example leaves out.
    let config = good(&format!("{COMPLETE}{example}"));
    assert_eq!(config.limits.bodies_disk_bytes_max, 10 * config.limits.body_bytes_max);
}

#[test]
fn the_examples_about_access_are_good() {
    let manual = include_str!("../../../../docs/access.md");
    let examples: Vec<_> =
        manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 7);
    // What the examples leave out.
    let listen = "[[listen]]\naddress = \":1\"\n";
    examples.into_iter().for_each(|example| drop(good(&format!("{listen}{example}"))));
}

#[test]
fn the_examples_about_proxies_are_good() {
    let manual = include_str!("../../../../docs/proxies.md");
    let examples: Vec<_> =
        manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 11);
    examples.into_iter().for_each(|example| drop(good(example)));
}

#[test]
fn the_examples_about_external_servers_are_good() {
    let manual = include_str!("../../../../docs/upstreams.md");
    let examples: Vec<_> =
        manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 5);
    examples.into_iter().for_each(|example| drop(good(example)));
}

#[test]
fn traces_are_for_a_collector_that_can_be_reached() {
    let manual = include_str!("../../../../docs/traces.md");
    let examples: Vec<_> =
        manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 1);
    let trace = good(examples[0]).trace.unwrap();
    let otlp = trace.otlp.unwrap();
    assert_eq!((otlp.host.as_str(), otlp.path.as_str()), ("127.0.0.1:4318", "/v1/traces"));
    let of = |url: &str| format!("{COMPLETE}[trace]\notlp = \"{url}\"\n");
    for (url, host, path) in [
        ("http://127.0.0.1", "127.0.0.1:4318", "/v1/traces"),
        ("http://[::1]/", "[::1]:4318", "/v1/traces"),
        ("http://[::1]:9/a/b?c", "[::1]:9", "/a/b?c"),
    ] {
        let otlp = good(&of(url)).trace.and_then(|trace| trace.otlp).unwrap();
        assert_eq!((otlp.host.as_str(), otlp.path.as_str()), (host, path), "{url}");
    }
    for url in
        ["https://127.0.0.1", "127.0.0.1:4318", "http:///v1", "http://a@127.0.0.1/", "http://127.0.0.1/#a"]
    {
        let said = errors(&of(url));
        assert!(said.contains("is not the URL of a collector"), "{url}: {said}");
    }
    assert_eq!(good(COMPLETE).trace, None);
}

#[test]
fn the_url_of_another_server_is_a_pool_and_a_path() {
    let text = |forward: &str, more: &str| {
        format!(
            "listen = [{{ address = \":1\" }}]\nsite = [{{ root = \"www\", forward_auth = {{ {forward} }} }}]\n{more}"
        )
    };
    let config = good(&text("url = \"https://127.0.0.1/a?b\"", "[pool.auth-127-0-0-1]\ncommand = [\"x\"]\n"));
    let names: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["auth-127-0-0-1", "auth-127-0-0-1-2"]);
    let Authentication::On(forward) = &config.sites[0].access.forward else { panic!("it is on") };
    assert_eq!((forward.pool, forward.path.as_str()), (1, "/a?b"));
    let cached = |max: u32| {
        format!("forward_auth = {{ url = \"http://127.0.0.1:1/\", cache = {{ entries_max = {max} }} }}")
    };
    let config = good(&format!(
        "listen = [{{ address = \":1\" }}]\n[[site]]\nroot = \"www\"\n{}\n[[site.route]]\npath = \"/a/*\"\nroot = \"www\"\n{}\n",
        cached(7),
        cached(8)
    ));
    assert_eq!(config.auth_caches, [8, 7], "each table has its own; routes are read first");
    for (forward, error) in [
        (
            "url = \"http://127.0.0.1:1/\", path = \"/x\"",
            "2:48 `url` and `path` of `forward_auth` say the same thing",
        ),
        (
            "url = \"127.0.0.1:1/x\"",
            "2:48 `url`: \"127.0.0.1:1/x\" is not the URL of a server and a path there | write \"http://host:port/path\", or \
             \"https://host/path\"",
        ),
        (
            "url = \"http://127.0.0.1:1/\", sign_in = \"/in?rd={target}\"",
            "2:81 `sign_in`: \"/in?rd={target}\" is not a place where clients sign in | of placeholders it takes {uri} and {url}",
        ),
        (
            "url = \"http://127.0.0.1:1/\", sign_in = \"//a.example/\"",
            "2:81 `sign_in`: \"//a.example/\" is not a place where clients sign in | write a path, as \"/oauth2/start?rd={uri}\", \
             or a URL, as \"https://auth.example/?rd={url}\"",
        ),
        ("timeout = 1", "2:40 `forward_auth` has no `pool` | name a `pool` and a `path`, or a `url`"),
        (
            "url = \"http://127.0.0.1:1/\", cache = { key = [\"method\", \"uri\"] }",
            "2:87 `key` has nothing of the client, so that all clients would get the answer of the first one | add \
             \"header:Cookie\", \"header:Authorization\", \"cookie:NAME\" or \"client\"",
        ),
        (
            "url = \"http://127.0.0.1:1/\", cache = { key = [\"cookie\", \"client\"] }",
            "2:88 `key`: \"cookie\" is no part of a request | it takes \"header:NAME\", \"cookie:NAME\", \"client\", \"method\", \
             \"uri\" or \"path\"",
        ),
        (
            "url = \"http://127.0.0.1:1/\", cache = { entries_max = 0 }",
            "2:95 `entries_max` is out of range | it takes a whole number, 1 to 1000000",
        ),
    ] {
        assert_eq!(brief(&text(forward, ""))[0], error);
    }
}
