use proptest::prelude::*;

use super::*;

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

const SERVER: Mapping<'static> = Mapping {
    own: ["app:8080", "inner.example"],
    client: "",
    prefix: Some(("/app/", "/")),
    paths: false,
    references: &[],
    cookie_domains: &[],
    cookie_paths: &[],
};

/// The value of a field as the client gets it.
fn mapped(mapping: &Mapping<'_>, name: &str, value: &str) -> String {
    let found = mapping.field(name.as_bytes(), value.as_bytes());
    found.map_or(value.to_owned(), |found| String::from_utf8(found).unwrap())
}

#[track_caller]
fn table(mapping: &Mapping<'_>, name: &str, rows: &[(&str, &str)]) {
    for (value, expected) in rows {
        assert_eq!(mapped(mapping, name, value), *expected, "{name}: {value}");
    }
}

#[test]
fn what_a_server_says_of_itself_is_relative_to_this_one() {
    let rows = [
        ("http://app:8080/login", "/app/login"),
        ("HTTP://APP:8080/login?next=http://app:8080/x#y", "/app/login?next=http://app:8080/x#y"),
        ("//app:8080/login", "/app/login"),
        ("http://app:8080", "/app/"),
        ("http://app:8080?a", "/app/?a"),
        ("http://inner.example/x", "/app/x"),
        ("https://inner.example/x", "/app/x"),
        ("http://inner.example:80/x", "/app/x"),
        ("https://inner.example:443/x", "/app/x"),
        ("http://app:8080/app/x", "/app/app/x"),
        ("http://app:8080//evil.example/", "/app//evil.example/"),
        // Others stay as they are.
        ("http://app/login", "http://app/login"),
        ("https://app:8443/login", "https://app:8443/login"),
        ("http://inner.example:81/x", "http://inner.example:81/x"),
        ("http://app:8080.evil.example/", "http://app:8080.evil.example/"),
        ("http://user@app:8080/x", "http://user@app:8080/x"),
        ("http://evil.example\\@app:8080/", "http://evil.example\\@app:8080/"),
        ("ftp://app:8080/", "ftp://app:8080/"),
        ("/login", "/login"),
        ("login", "login"),
        ("?a", "?a"),
        ("", ""),
    ];
    table(&SERVER, "Location", &rows);
    table(&SERVER, "content-location", &rows);
    table(&SERVER, "Link", &[("http://app:8080/login", "http://app:8080/login")]);
    table(
        &SERVER,
        "Set-Cookie",
        &[("a=b; Path=/; Domain=inner.example", "a=b; Path=/; Domain=inner.example")],
    );
}

#[test]
fn a_path_never_becomes_a_host() {
    for prefix in [None, Some(("/", "/v2/"))] {
        let mapping = Mapping { prefix, ..SERVER };
        let inner = prefix.map_or("", |_| "/v2");
        for (rest, expected) in
            [("//evil.example/", "/.//evil.example/"), ("/\\evil.example", "/./\\evil.example")]
        {
            let value = format!("http://app:8080{inner}{rest}");
            assert_eq!(mapped(&mapping, "Location", &value), expected, "{value}");
            let paths = Mapping { paths: true, ..mapping };
            if prefix.is_some() {
                assert_eq!(mapped(&paths, "Location", &format!("{inner}{rest}")), expected, "{rest}");
            }
        }
    }
}

#[test]
fn a_path_that_no_route_leads_to_stays() {
    let mapping = Mapping { prefix: Some(("/api/", "/v2/")), ..SERVER };
    let rows = [
        ("http://app:8080/v2/x", "/api/x"),
        ("http://app:8080/v2/", "/api/"),
        ("http://app:8080/v2", "http://app:8080/v2"),
        ("http://app:8080/login", "http://app:8080/login"),
    ];
    table(&mapping, "Location", &rows);
    table(&Mapping { prefix: None, ..SERVER }, "Location", &[("http://app:8080/v2", "/v2")]);
}

#[test]
fn paths_alone_are_mapped_where_that_is_wanted() {
    let mapping = Mapping { paths: true, client: "www.example:8000", ..SERVER };
    let rows = [
        ("/login", "/app/login"),
        ("/", "/app/"),
        ("/app/login", "/app/login"),
        ("/application", "/app/application"),
        ("http://www.example:8000/login", "http://www.example:8000/app/login"),
        ("https://WWW.example:8000/app/x", "https://WWW.example:8000/app/x"),
        ("http://www.example/login", "http://www.example/login"),
        ("//other.example/login", "//other.example/login"),
        ("login", "login"),
    ];
    table(&mapping, "Location", &rows);
    let rows = [
        ("id=1", "id=1"),
        ("id=1; Path=/; HttpOnly", "id=1; Path=/app/; HttpOnly"),
        ("id=1;path=/x;Secure", "id=1;path=/app/x;Secure"),
        ("id=1; Path=/app/x", "id=1; Path=/app/x"),
        ("id=/; Path", "id=/; Path"),
        ("Path=/; Path=/", "Path=/; Path=/app/"),
    ];
    table(&mapping, "Set-Cookie", &rows);
}

#[test]
fn pairs_come_before_all_rules() {
    let references =
        pairs(&[("http://app:8080/", "/x/"), ("http://app:8080/deep/", "https://deep.example/")]);
    let domains = pairs(&[("inner.example", "www.example"), (".gone.example", "")]);
    let paths = pairs(&[("/", "/app/"), ("/long/", "/l/")]);
    let mapping =
        Mapping { references: &references, cookie_domains: &domains, cookie_paths: &paths, ..SERVER };
    table(
        &mapping,
        "Location",
        &[
            ("http://app:8080/a", "/x/a"),
            ("http://app:8080/deep/a", "https://deep.example/a"),
            ("http://inner.example/a", "/app/a"),
        ],
    );
    table(
        &mapping,
        "Set-Cookie",
        &[
            ("a=b; Domain=.INNER.example; Path=/", "a=b; Domain=www.example; Path=/app/"),
            ("a=b; domain=gone.example;path=/long/x", "a=b;path=/l/x"),
            ("a=b; Domain=sub.inner.example", "a=b; Domain=sub.inner.example"),
            ("domain=inner.example; Path=", "domain=inner.example; Path="),
        ],
    );
}

#[test]
fn refresh_has_a_reference_in_it() {
    let rows = [
        ("5; url=http://app:8080/x", "5; url=/app/x"),
        ("0;URL='http://app:8080/x'; y", "0;URL='/app/x'; y"),
        ("0; url=\"http://app:8080/x", "0; url=\"/app/x"),
        ("5", "5"),
        ("5; url=/x", "5; url=/x"),
        ("5; url=", "5; url="),
    ];
    table(&SERVER, "Refresh", &rows);
}

#[test]
fn a_head_is_copied_only_if_a_field_changes() {
    let mut own = FieldLines::default();
    own.push(b"A", b"http://app:8080/");
    own.push(b"Location", b"/x");
    assert!(SERVER.fields(&ResponseHead::own(302, own.all())).is_none());
    own.push(b"location", b"http://app:8080/y");
    own.push(b"B", b"");
    let mut room = None;
    let head = SERVER.head(&ResponseHead { status: 302, ..ResponseHead::own(302, own.all()) }, &mut room);
    let mut shown = String::new();
    head.for_each(|name, value| {
        shown += &format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    });
    assert_eq!(shown, "A=http://app:8080/;Location=/x;location=/app/y;B=;");
}

proptest! {
    /// Whatever a server sends: nothing panics, no line ends, and no other host comes in.
    #[test]
    fn nothing_but_the_server_itself_is_mapped(value in "[ -~]{0,40}", start in 0..5_usize, paths: bool) {
        let starts = ["", "http://app:8080", "//app:8080/", "http://inner.example/", "/"];
        let value = format!("{}{value}", starts[start]);
        let mapping = Mapping { paths, client: "www.example", ..SERVER };
        for name in ["Location", "Refresh", "Set-Cookie"] {
            let found = mapped(&mapping, name, &value);
            prop_assert!(!found.contains(['\r', '\n', '\0']));
            if name == "Location" && found != value && !value.contains("www.example") {
                prop_assert!(found.starts_with("/app/"), "{value} {found}");
            }
        }
    }
}
