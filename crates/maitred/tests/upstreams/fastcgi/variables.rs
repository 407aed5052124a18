//! What PHP finds in `$_SERVER`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fastcgi::site::{FRONT, files, json, on_both, setup, with_tls};
use crate::support::h2;
use crate::support::php::{Kind, Php};
use crate::support::stage::Authority;
use crate::support::upstream::Upstream;
use crate::support::{Client, Server};

/// Variables by their name.
type Variables = BTreeMap<String, String>;

/// `$_SERVER` without what PHP adds to it, and what is another one in each run.
fn server_of(found: &Value) -> Variables {
    let mut all = all_of(found);
    all.retain(|name, _| !TOLD.iter().any(|told| name.starts_with(told)));
    all
}

/// What Maitred tells every application of a request's past (docs/proxies.md): these, and what begins so.
const TOLD: [&str; 4] = ["HTTP_X_FORWARDED_", "HTTP_FORWARDED", "HTTP_X_REQUEST_", "HTTP_X_SSL_"];

fn all_of(found: &Value) -> Variables {
    let own = ["argv", "argc", "USER", "HOME", "REQUEST_TIME", "REQUEST_TIME_FLOAT"];
    let all = found["server"].as_object().unwrap().iter().filter(|(name, _)| !own.contains(&name.as_str()));
    all.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// Requests, each with what it is about.
const REQUESTS: [(&str, &str); 8] = [
    ("script", "GET /vars.php?a=1&b=%20x HTTP/1.1\r\nHost: localhost\r\nX-Some-Field: one\r\n\r\n"),
    ("path info", "GET /vars.php/some/info%20x?q HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("path info that is a script", "GET /vars.php/other.php HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("directory", "GET /sub/?vars HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("front controller", "GET /a/page%20of/it?vars&x=%2F HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("letters", "GET /caf%C3%A9/a%20b.php HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    (
        "content",
        "POST /vars.php HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc",
    ),
    (
        "fields",
        "GET /vars.php HTTP/1.1\r\nHost: localhost\r\nCookie: a=1\r\nAuthorization: Basic YTpi\r\nProxy: http://evil.test/\r\n\
         Accept: a/b\r\nAccept: c/d\r\nContent_Type: x/y\r\n\r\n",
    ),
];

/// Differences between nginx and Maitred, each with its reason. `*` for any request.
const DIFFERENCES: [(&str, &str, &str); 9] = [
    ("*", "SERVER_SOFTWARE", "the name of the server"),
    ("*", "SERVER_PORT", "each listens on a port of its own"),
    ("*", "REMOTE_PORT", "each request comes on a connection of its own"),
    (
        "*",
        "CONTENT_TYPE",
        "nginx sends it empty without content; RFC 3875 section 4.1.3 has it only if the client said it",
    ),
    (
        "*",
        "CONTENT_LENGTH",
        "nginx sends it empty without content; RFC 3875 section 4.1.2 has it only with content",
    ),
    (
        "*",
        "REMOTE_USER",
        "nginx sends it empty, or the name in Authorization, which nothing has checked (section 4.1.11)",
    ),
    (
        "fields",
        "HTTP_ACCEPT",
        "lines of a list are joined (section 4.1.18); with nginx 1.22, PHP sees the last one",
    ),
    ("path info", "PATH_TRANSLATED", "section 4.1.6 has it with a path; nginx does not send it"),
    ("path info that is a script", "PATH_TRANSLATED", "the same"),
];

/// With all others equal.
#[test]
fn variables_are_those_of_nginx() {
    for kind in [Kind::FpmUnix, Kind::FpmTcp, Kind::CgiUnix] {
        let Some(php) = Php::of(kind, 2) else { return };
        let found: RefCell<Vec<Vec<Variables>>> = RefCell::default();
        on_both(&php, |front| {
            let all = REQUESTS.iter().map(|(_, request)| server_of(&json(&front.connect().ask(request))));
            let mut all: Vec<_> = all.collect();
            let over_tls = front.connect_tls().ask(REQUESTS[0].1);
            all.push(server_of(&json(&over_tls)));
            found.borrow_mut().push(all);
        });
        let found = found.into_inner();
        let [nginx, maitred] = &found[..] else { return };
        compare(nginx, maitred);
    }
}

fn compare(nginx: &[Variables], maitred: &[Variables]) {
    let names = REQUESTS.iter().map(|(name, _)| *name).chain(["script over TLS"]);
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for ((case, left), right) in names.zip(nginx).zip(maitred) {
        let all: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for name in all.into_iter().filter(|name| left.get(*name) != right.get(*name)) {
            let known =
                DIFFERENCES.iter().position(|(of, known, _)| (*of == "*" || *of == case) && known == name);
            match known {
                Some(known) => drop(used.insert(known)),
                None => wrong.push((case, name, left.get(name), right.get(name))),
            }
        }
    }
    assert!(wrong.is_empty(), "nginx and Maitred differ: {wrong:#?}");
    let unused: Vec<_> =
        (0..DIFFERENCES.len()).filter(|at| !used.contains(at)).map(|at| DIFFERENCES[at]).collect();
    assert!(unused.is_empty(), "no difference any more: {unused:#?}");
}

/// What docs/php.md says of a request, and no more: over TLS, HTTP/1.1, HTTP/2.
#[test]
fn variables_are_as_documented() {
    let Some(php) = Php::fpm(2) else { return };
    let authority = Authority::new();
    let server = with_tls(setup(&php, FRONT), &authority).start();
    let target = "/shop/app.php/item/7?x=1";
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nCookie: a=1\r\n\r\n");
    let tls = server.address_of("https");
    let mut client = Client::try_connect_tls(tls, &authority.client(), "localhost").unwrap();
    let mut expected = documented(&server, "https", tls.port());
    expected.insert("HTTPS".to_owned(), "on".to_owned());
    assert_eq!(without_port(server_of(&json(&client.ask(&request)))), expected);
    let mut expected = documented(&server, "http", server.address_of("http").port());
    let cleartext = server.address_of("http");
    assert_eq!(without_port(server_of(&json(&Client::connect(cleartext).ask(&request)))), expected);
    let mut connection = h2::Connection::new(cleartext);
    let response = connection.method("GET", target, &[("cookie", "a=1")]);
    expected.insert("SERVER_PROTOCOL".to_owned(), "HTTP/2.0".to_owned());
    let found: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(without_port(server_of(&found)), expected);
    drop((connection, client));
    server.stop();
}

fn without_port(mut variables: Variables) -> Variables {
    let port = variables.remove("REMOTE_PORT").unwrap();
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{port}");
    variables
}

/// The table of the document for its example, but for HTTPS.
fn documented(server: &Server, scheme: &str, port: u16) -> Variables {
    let root = server.path("root").canonicalize().unwrap().display().to_string();
    let all = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/shop/app.php/item/7?x=1"),
        ("QUERY_STRING", "x=1"),
        ("SCRIPT_NAME", "/shop/app.php"),
        ("PATH_INFO", "/item/7"),
        ("PHP_SELF", "/shop/app.php/item/7"),
        ("DOCUMENT_URI", "/shop/app.php"),
        ("DOCUMENT_ROOT", &root),
        ("SCRIPT_FILENAME", &format!("{root}/shop/app.php")),
        ("PATH_TRANSLATED", &format!("{root}/item/7")),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_NAME", "localhost"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_PORT", &port.to_string()),
        ("SERVER_SOFTWARE", "maitred"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_SCHEME", scheme),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REDIRECT_STATUS", "200"),
        ("HTTP_HOST", "localhost"),
        ("HTTP_COOKIE", "a=1"),
        // PHP's own.
        ("FCGI_ROLE", "RESPONDER"),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Neither settings of PHP nor a proxy come from fields of a request, however they are written.
#[test]
fn clients_set_no_variables() {
    let Some(php) = Php::fpm(2) else { return };
    let server = setup(&php, FRONT).start();
    let evil = [
        ("Proxy", "http://evil.test/"),
        ("PHP_VALUE", "auto_prepend_file=/etc/passwd"),
        ("PHP-Value", "auto_prepend_file=/etc/passwd"),
        ("PHP-Admin-Value", "auto_prepend_file=/etc/passwd"),
        ("HTTPS", "on"),
        ("Remote-Addr", "10.0.0.1"),
        ("SCRIPT_FILENAME", "/etc/passwd"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("Remote_User", "root"),
    ];
    let fields: String = evil.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let first = json(&server.connect().method("GET", "/vars.php", &fields));
    let mut connection = h2::Connection::new(server.address);
    let lower: Vec<_> = evil.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let fields: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let second: Value = serde_json::from_slice(&connection.method("GET", "/vars.php", &fields).body).unwrap();
    for found in [first, second] {
        assert_eq!((&found["proxy"], &found["prepended"]), (&Value::Bool(false), &"".into()));
        let variables = all_of(&found);
        for name in ["REMOTE_ADDR", "HTTP_X_FORWARDED_FOR"] {
            assert_eq!(variables[name], "127.0.0.1");
        }
        assert!(variables["SCRIPT_FILENAME"].ends_with("/root/vars.php"));
        for name in ["HTTP_PROXY", "PHP_VALUE", "PHP_ADMIN_VALUE", "HTTPS", "REMOTE_USER", "HTTP_REMOTE_USER"]
        {
            assert_eq!(variables.get(name), None, "{name}");
        }
        // `HTTP_PHP_VALUE` is a field as any other: it only begins with the same letters.
        assert_eq!(variables["HTTP_PHP_VALUE"], "auto_prepend_file=/etc/passwd");
    }
    drop(connection);
    server.stop();
}

/// RFC 3875 sections 4.1.1 and 4.1.11: who was proved to be the client, and by what; never what it says itself.
#[test]
fn an_application_knows_the_user_that_a_gate_has_found() {
    let Some(php) = Php::fpm(2) else { return };
    let users = "users = { ann = \"$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.\" }";
    let guard = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send("HTTP/1.1 200 OK\r\nRemote-User: cat\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let asked = format!("forward_auth = {{ url = \"{}/\", copy_headers = [\"Remote-User\"] }}", guard.name());
    let server = files()
        .route("/caf\u{e9}/*", &format!("pool = \"php\"\n{asked}"))
        .route("/sub/*", &format!("pool = \"php\"\nbasic_auth = {{ {users} }}"))
        .route("/shop/*", &format!("pool = \"php\"\nbasic_auth = {{ {users}, remove_authorization = true }}"))
        .route("/*", "pool = \"php\"")
        .table(&format!("[pool.php]\nconnect = \"{}\"\n{FRONT}\n", php.url()))
        .start();
    let lies = "X-Remote-User: root\r\nRemote-User: root\r\nREMOTE_USER: root\r\nAuth-Type: x\r\n";
    let ann = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
    let seen = |target: &str, fields: &str| all_of(&json(&server.connect().method("GET", target, fields)));
    let told = |variables: &Variables, name: &str| variables.get(name).cloned();
    let open = seen("/vars.php", &format!("{lies}{ann}"));
    for name in ["REMOTE_USER", "AUTH_TYPE", "HTTP_X_REMOTE_USER", "HTTP_REMOTE_USER"] {
        assert_eq!(told(&open, name), None, "{name}: what was not looked at is not known");
    }
    for (target, authorization) in [("/sub/?vars", true), ("/shop/app.php", false)] {
        let variables = seen(target, &format!("{lies}{ann}"));
        assert_eq!(told(&variables, "REMOTE_USER").as_deref(), Some("ann"), "{target}");
        assert_eq!(told(&variables, "AUTH_TYPE").as_deref(), Some("Basic"), "{target}");
        assert_eq!(told(&variables, "HTTP_X_REMOTE_USER").as_deref(), Some("ann"), "{target}");
        assert_eq!(told(&variables, "HTTP_AUTHORIZATION").is_some(), authorization, "{target}");
        assert_eq!(told(&variables, "HTTP_REMOTE_USER"), None, "{target}");
        assert_eq!(server.connect().method("GET", target, lies).status, 401, "{target}");
    }
    let variables = seen("/caf%C3%A9/a%20b.php", &format!("{lies}{ann}"));
    assert_eq!(told(&variables, "REMOTE_USER").as_deref(), Some("cat"));
    assert_eq!(told(&variables, "AUTH_TYPE").as_deref(), Some("forward_auth"));
    assert_eq!(told(&variables, "HTTP_REMOTE_USER").as_deref(), Some("cat"));
    assert_eq!(told(&variables, "HTTP_X_REMOTE_USER"), None);
    server.stop();
}
