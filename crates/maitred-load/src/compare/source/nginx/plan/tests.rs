use std::collections::BTreeMap;

use super::super::tree::servers;
use super::*;

const CONFIGURATION: &str = "
    server {
        listen 80;
        listen 443 ssl;
        listen 8080;
        server_name a.example *.b.example .c.example ~^d\\d\\.example$ _;
        root /srv;
        index index.html;
        error_page 404 /404.html;
        ssl_verify_client optional;
        location = /exact { return 204; }
        location /static/ { alias /files/; }
        location ~ \\.php$ { fastcgi_pass x; }
        location ~* \\.(gif|png)$ { expires 1h; }
        rewrite ^/old/(\\d+)$ /new;
    }
    server { listen 80; server_name other.example; root /none; }
";

fn gathered(root: Option<&Path>, known: &Known) -> Gathered {
    gather(&servers(&maitred_import::nginx_directives(CONFIGURATION).unwrap()), root, known)
}

fn known() -> Known {
    Known { cases_max: 10_000, has_identity: true, ports: [(443, (1, 2))].into(), ..Known::default() }
}

/// Targets of GET requests by what they are about.
fn by_about(gathered: &Gathered) -> BTreeMap<&str, Vec<String>> {
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for case in &gathered.cases {
        let target = String::from_utf8(case.request.target.clone()).unwrap();
        all.entry(&case.about).or_default().push(target);
    }
    all
}

#[test]
fn each_kind_of_request_is_made() {
    let directory = tempfile::tempdir().unwrap();
    for (path, content) in
        [("srv/index.html", "1"), ("srv/sub/é.txt", "2"), ("files/x.css", "3"), ("srv/.hidden", "4")]
    {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let found = gathered(Some(directory.path()), &known());
    let all = by_about(&found);
    let has = |about: &str, target: &str| {
        let targets = all.get(about).unwrap_or_else(|| panic!("nothing about {about}: {:?}", all.keys()));
        assert!(targets.iter().any(|other| other == target), "{about}: {target} is not in {targets:?}");
    };
    has("location = /exact: itself", "/exact");
    has("location = /exact: below it", "/exactx");
    has("location = /exact: with or without /", "/exact/");
    has("location /static/: itself", "/static/");
    has("location /static/: without /", "/static");
    has("location /static/: a missing file", "/static/no-such-file-here.html");
    has("location /static/: a file", "/static/x.css");
    has("location /static/: an index", "/static/index.html");
    has("location ~ \\.php$: an example", "/x.php");
    has("location ~* \\.(gif|png)$: an example", "/x.png");
    has("location ~* \\.(gif|png)$: in upper case", "/X.GIF");
    has("the server itself: an index", "/index.html");
    has("the server itself: a file", "/.hidden");
    has("the server itself: a file", "/sub/%C3%A9.txt");
    has("the server itself: a directory", "/sub");
    has("a path that is named", "/404.html");
    has("rewrite ^/old/(\\d+)$", "/old/5");
    has("location /static/: two slashes at the start", "//static/x.css");
    has("location /static/: %2F in the middle", "/static%2Fx.css");
    has("location /static/: HEAD", "/static/x.css");
    has("location /static/: PUT", "/static/x.css");
    has("location /static/: Range bytes=-2", "/static/x.css");
    has("location /static/: Accept-Encoding gzip", "/static/x.css");
    has("location /static/: If-None-Match", "/static/x.css");
    has("location /static/: without the certificate", "/static/x.css");
    has("the absolute form", "http://a.example/");
    has("OPTIONS of the server", "*");
    has("port 443", "/exact");
    for host in ["x.b.example", "c.example", "x.c.example", "d5.example", "unknown.invalid"] {
        has(&format!("host {host}"), "/exact");
    }
    has("host with upper case", "/");
    assert_eq!(
        found.notes,
        ["port 8080 of the configuration is not mapped, and was left out (--map-port 8080=LEFT,RIGHT)"]
    );
    assert_eq!(found.port, Some(Port { number: 80, is_tls: false }));
}

#[test]
fn requests_say_what_they_are() {
    let found = gathered(None, &known());
    let find = |about: &str| &found.cases.iter().find(|case| case.about == about).unwrap().request;
    assert_eq!(find("location = /exact: itself").host.as_deref(), Some("a.example"));
    assert_eq!(find("location = /exact: HEAD").method, "HEAD");
    let range = find("location = /exact: Range bytes=0-0");
    assert_eq!(range.fields, [("Range".to_owned(), b"bytes=0-0".to_vec())]);
    assert_eq!(find("port 443").port, Some(Port { number: 443, is_tls: true }));
    assert!(find("location = /exact: without the certificate").is_anonymous);
    let first = found.cases.iter().find(|case| case.about == "location = /exact: itself").unwrap();
    assert_eq!(first.follow_ups, [FollowUp::Tag, FollowUp::Date, FollowUp::Range]);
    assert!(found.cases.iter().all(|case| case.request.check().is_ok()));
    assert!(found.cases.iter().any(|case| case.request.host.as_deref() == Some("other.example")));
}

#[test]
fn each_location_is_asked_as_a_user_too() {
    let found = gathered(None, &Known { authorization: Some("Basic YTpi".to_owned()), ..known() });
    let find = |about: &str| &found.cases.iter().find(|case| case.about == about).unwrap().request;
    let asked = find("location = /exact: itself, as a user");
    assert_eq!(asked.fields, [("Authorization".to_owned(), b"Basic YTpi".to_vec())]);
    assert!(find("location = /exact: itself").fields.is_empty());
}

#[test]
fn a_bound_leaves_out_variants_first() {
    let all = gathered(None, &known());
    let count = all.cases.iter().take_while(|case| !case.about.starts_with("host ")).count();
    let found = gathered(None, &Known { cases_max: count, ..known() });
    assert_eq!((found.cases.len(), &*found.cases), (count, &all.cases[..count]));
    assert!(found.cases.iter().any(|case| case.about == "location ~ \\.php$: an example"));
    assert!(found.notes.iter().any(|note| note.contains("--requests-max")));
}

#[test]
fn the_named_servers_stand_for_a_port_that_is_as_they_are() {
    let tls = gathered(None, &Known { is_tls: true, ports: BTreeMap::new(), ..known() });
    assert_eq!(tls.port, Some(Port { number: 443, is_tls: true }));
    assert!(tls.notes.iter().any(|note| note.starts_with("port 80 ")));
    assert!(tls.cases.iter().all(|case| case.request.port == tls.port));
    let other = host("a.example", Port { number: 8080, is_tls: false });
    assert_eq!(other, "a.example:8080");
}
