//! `expires`, `types`, `charset`, `cors` and `security_headers`.

use super::meaning::EVERYTHING;
use super::*;

fn site(keys: &str) -> String {
    format!("{START}[[site]]\nroot = \"www\"\n{keys}\n")
}

#[test]
fn keys_about_fields_reach_their_meaning() {
    let config = good(EVERYTHING);
    let site = &config.sites[0];
    let media = &site.files.as_ref().unwrap().media;
    let pair = |ending: &str, media: &str| (ending.to_owned(), media.to_owned());
    assert_eq!(
        (&media.types[..], media.default.as_deref()),
        (&[pair("wasm", "application/x-wasm")][..], Some("text/plain"))
    );
    assert_eq!(media.charset.as_deref(), Some("iso-8859-1"));
    assert_eq!(media.charset_types, ["text/", "application/json"]);
    let value = |text: &str| Some(text.to_owned());
    let expected = [
        (ExpiresFor::Name("sw.js".into()), None),
        (ExpiresFor::Hashed, value("max-age=31536000, immutable")),
        (ExpiresFor::Ending(".html".into()), value("no-cache")),
        (ExpiresFor::Family("image/".into()), value("max-age=2592000")),
        (ExpiresFor::Default, value("max-age=7200")),
    ];
    assert_eq!(site.expires.as_deref(), Some(&expected[..]));
    assert_eq!((site.security_headers, &site.cors), (Some(SecurityHeaders::Strict), &None));
    let Some(pool) = site.routes.iter().find(|route| route.cors.is_some()) else { panic!("no `cors`") };
    let below = OriginPattern::Below("https://".into(), ".b.example".into());
    let cors = Cors {
        origins: vec![OriginPattern::Exact("https://a.example".into()), below],
        methods: vec!["PUT".into()],
        headers: vec!["X-A".into()],
        expose: vec!["X-B".into()],
        credentials: true,
        max_age: std::time::Duration::from_secs(3600),
    };
    assert_eq!(pool.cors.as_ref(), Some(&cors));
    assert_eq!(
        (pool.expires.as_deref(), pool.security_headers),
        (Some(&[][..]), Some(SecurityHeaders::Usual))
    );
}

#[test]
fn a_route_has_the_types_of_its_site_or_its_own() {
    let config = good(&site(
        "types = { a = \"x/a\" }\ncharset = \"off\"\nroute = [{ path = \"/a/*\", root = \"a\", types = { b = \"x/b\" } }, \
         { path = \"/b/*\", root = \"b\", charset = \"koi8-r\", charset_types = [\"Text/HTML\"] }]",
    ));
    let media = |at: usize| match &config.sites[0].routes[at].target {
        Target::Files(files) => files.media.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(media(0).types, [("b".to_owned(), "x/b".to_owned())]);
    assert_eq!((media(0).charset, media(0).charset_types), (None, vec!["text/".to_owned()]));
    assert_eq!(media(1).types, [("a".to_owned(), "x/a".to_owned())]);
    assert_eq!(
        (media(1).charset.as_deref(), media(1).charset_types),
        (Some("koi8-r"), vec!["text/html".to_owned()])
    );
}

#[test]
fn values_of_expires_are_checked() {
    for (value, expected) in [
        ("0s", "max-age=0"),
        ("90 s", "max-age=90"),
        ("5m", "max-age=300"),
        ("2w", "max-age=1209600"),
        ("1y", "max-age=31536000"),
        ("no-store", "no-store"),
        ("private, max-age=60", "private, max-age=60"),
        ("max", "max-age=315360000"),
        ("epoch", "no-cache"),
    ] {
        for text in [format!("expires = {{ default = \"{value}\" }}"), format!("expires = \"{value}\"")] {
            let config = good(&site(&text));
            assert_eq!(config.sites[0].expires, Some(vec![(ExpiresFor::Default, Some(expected.to_owned()))]));
        }
    }
    assert_eq!(good(&site("expires = \"off\"")).sites[0].expires, Some(vec![(ExpiresFor::Default, None)]));
    assert!(
        brief(&site("expires = \"soon\""))[0].contains("`expires` does not take \"soon\" | it takes a time")
    );
    assert!(brief(&site("expires = 30"))[0].contains("`expires`: expected a string or a table"));
    const VALUES: &str = "it takes a time such as \"30d\", \"no-cache\", \"no-store\", \"immutable\", \"max\", \"epoch\", \"off\", or \
                          directives of `Cache-Control` such as \"private, max-age=60\"";
    const NAMES: &str = "write a name (\"sw.js\"), an ending (\"*.html\"), \"hashed\", a media type (\"image/*\"), or \"default\"";
    let text = "expires = { \"/a/*\" = \"1d\", html = \"1d\", \"*.h*\" = \"1d\", \"*\" = \"1d\", \"*/*\" = \"1d\", \
                \"a.js\" = \"30\", \"b.js\" = \"soon\", \"c.js\" = \"99y\", \"*.CSS\" = \"1d\", \"*.css\" = \"2d\", \
                \"d.js\" = \"a=\\u0001\" }";
    let found: Vec<String> =
        brief(&site(text)).iter().map(|line| line.split_once(' ').unwrap_or_default().1.to_owned()).collect();
    let names = |text: &str| format!("`expires`: \"{text}\" names no files | {NAMES}");
    let values = |text: &str| format!("`expires` does not take \"{text}\" | {VALUES}");
    assert_eq!(
        found,
        [
            "`expires`: \"/a/*\" names no files | paths are given to a [[site.route]], which can have its own `expires`"
                .to_owned(),
            names("html"),
            names("*.h*"),
            names("*"),
            names("*/*"),
            values("30"),
            values("soon"),
            "`expires` does not take \"99y\" | this is longer than caches count: 68 years".to_owned(),
            "`expires` has \"*.css\" twice".to_owned(),
            values("a=\u{fffd}"),
        ]
    );
}

#[test]
fn media_types_are_checked() {
    assert_eq!(
        brief(&site(
            "types = { js = \"javascript\", \"a/b\" = \"x/a\", \"*.a\" = \"x/a\", A = \"x/b\" }\ncharset = \"utf 8\"\n\
             charset_types = [\"text\", \"*/*\"]"
        )),
        [
            "4:16 `types`: \"javascript\" is not a media type | it looks like \"application/wasm\"",
            "4:30 `types`: \"a/b\" is not the ending of a name | write it as in `wasm = \"application/wasm\"`",
            "4:60 `types` has \"A\" twice",
            "5:11 `charset`: \"utf 8\" is not the name of a character encoding | it takes \"utf-8\", \"iso-8859-1\" …, or \
             \"off\"",
            "6:18 `charset_types`: \"text\" is not a media type | it looks like \"application/json\" or \"text/*\"",
            "6:26 `charset_types`: \"*/*\" is not a media type | it looks like \"application/json\" or \"text/*\"",
        ]
    );
    let pool = "[pool.a]\nconnect = \"http://127.0.0.1:1\"\n";
    assert_eq!(
        brief(&format!(
            "{START}[[site]]\nroute = [{{ path = \"*\", pool = \"a\", charset = \"off\" }}]\n{pool}"
        )),
        ["3:36 `charset` goes with `root`, which this route does not have"]
    );
}

#[test]
fn origins_are_checked() {
    const FORM: &str = "it looks like \"https://a.example\", \"https://*.b.example:8443\", or is \"*\"";
    for (origin, why) in [
        ("a.example", format!("its scheme is missing: {FORM}")),
        ("https://a.example/", "an origin has no path, not even a slash at its end".to_owned()),
        ("https://A.example", "browsers write origins in lower case".to_owned()),
        ("https://a.example:443", "browsers leave out `:443`, which goes without saying".to_owned()),
        ("https://*", FORM.to_owned()),
        ("https://a.*.example", FORM.to_owned()),
        ("https://", FORM.to_owned()),
        ("://a", FORM.to_owned()),
    ] {
        assert_eq!(
            brief(&site(&format!("cors = {{ origins = [\"{origin}\"] }}"))),
            [format!("4:21 `origins`: \"{origin}\" is not an origin | {why}")]
        );
    }
    let cors = |text: &str| good(&site(text)).sites.remove(0).cors.unwrap();
    assert_eq!(cors("cors = { origins = [\"*\"] }").origins, [OriginPattern::Any]);
    assert_eq!(cors("cors = { origins = [\"http://[::1]:8080\", \"app://x\"] }").origins.len(), 2);
    assert_eq!(cors("cors = { origins = [] }").methods, ["GET", "HEAD", "POST"]);
}

#[test]
fn what_browsers_refuse_is_refused() {
    assert_eq!(
        brief(&site(
            "cors = { origins = [\"*\"], methods = [\"*\", \"get\", \"a b\"], headers = [\"*\"], expose = [\"X:\"], credentials = \
             true }"
        )),
        [
            "4:21 `cors`: with `credentials`, `origins` cannot be \"*\" | browsers refuse that: name what is meant",
            "4:38 `cors`: with `credentials`, `methods` cannot be \"*\" | browsers refuse that: name what is meant",
            "4:43 `methods`: \"get\" is not in capital letters",
            "4:50 `methods`: \"a b\" is not a method",
            "4:69 `cors`: with `credentials`, `headers` cannot be \"*\" | browsers refuse that: name what is meant",
            "4:85 `expose`: \"X:\" is not the name of a header field",
        ]
    );
    assert_eq!(
        brief(&site("cors = { methods = [\"GET\"] }")),
        [
            "4:8 `cors` has no `origins` | `origins` takes an array: `\"https://a.example\"`, `\"https://*.b.example\"`, or \
          `\"*\"`"
        ]
    );
}

#[test]
fn security_headers_are_on_off_or_strict() {
    let of = |value: &str| good(&site(&format!("security_headers = {value}"))).sites[0].security_headers;
    assert_eq!(of("true"), Some(SecurityHeaders::Usual));
    assert_eq!(of("false"), Some(SecurityHeaders::Off));
    assert_eq!(of("\"strict\""), Some(SecurityHeaders::Strict));
    assert_eq!(
        brief(&site("security_headers = \"stict\"")),
        ["4:20 `security_headers` does not take \"stict\" | did you mean \"strict\"?"]
    );
    assert_eq!(
        brief(&site("security_headers = 1")),
        [
            "4:20 `security_headers`: expected true, false or \"strict\", found a whole number | `security_headers` takes `true`, \
          `false`, `\"strict\"`"
        ]
    );
}

#[test]
fn compression_is_off_on_or_a_table() {
    let config = good(EVERYTHING);
    assert_eq!(config.sites[0].compress, Some(Compression::On(Compress::default())));
    let of_route = config.sites[0].routes.iter().find_map(|route| route.compress.clone());
    let expected = Compress {
        types: vec!["text/*".into(), "*+json".into()],
        bytes_min: 2048,
        codings: vec![Coding::Gzip, Coding::Brotli, Coding::Zstd],
        zstd_level: 4,
        gzip_level: 5,
        cookies_over_tls: true,
    };
    assert_eq!(of_route, Some(Compression::On(expected)));
    let of = |value: &str| good(&site(&format!("compress = {value}"))).sites[0].compress.clone();
    assert_eq!(of("false"), Some(Compression::Off));
    assert_eq!(
        of("{}"),
        Some(Compression::On(Compress::default())),
        "the declared defaults are those of `true`"
    );
}

#[test]
fn the_field_by_which_compressed_content_is_read_is_left_alone() {
    let named =
        |key: &str| format!("`{key}` names `Content-Encoding`, by which clients read what is compressed");
    let remove = "response_headers = { remove = [\"Content-Encoding\"] }\n";
    let off = "write `compress = false`, or leave the field alone";
    assert_eq!(
        brief(&site(&format!("compress = true\n{remove}"))),
        [format!("5:32 {} | {off}", named("remove"))]
    );
    assert_eq!(
        brief(&site(&format!("precompressed = [\"gzip\"]\n{remove}"))),
        [format!("5:32 {} | write `precompressed = []`, or leave the field alone", named("remove"))]
    );
    assert_eq!(
        brief(&site("compress = true\nheaders = { set = { Content-Encoding = \"x\" } }\n")),
        [format!("5:21 {} | {off}", named("set"))]
    );
    // What a route and its site say comes together.
    let route = "[[site.route]]\npath = \"/a\"\nrespond = { body = \"x\" }\n";
    let of_route = format!("{route}compress = true\n");
    assert_eq!(brief(&site(&format!("{remove}{of_route}"))), [format!("4:32 {} | {off}", named("remove"))]);
    for good_one in [remove.to_owned(), format!("compress = true\n{route}compress = false\n{remove}")] {
        good(&site(&good_one));
    }
}

#[test]
fn wrong_compression_is_said_where_it_stands() {
    const FORM: &str = "it looks like \"text/html\", \"text/*\" or \"*+json\"";
    let said = brief(&site(
        "compress = { types = [\"text\", \"*/*\", \"a/b\", \"A/b\", \"*+\"], codings = [], gzip_level = 10 }",
    ));
    assert_eq!(
        said,
        [
            format!("4:23 `types`: \"text\" is not a media type | {FORM}"),
            format!("4:31 `types`: \"*/*\" is not a media type | {FORM}"),
            "4:45 `types` names \"A/b\" twice".to_owned(),
            format!("4:52 `types`: \"*+\" is not a media type | {FORM}"),
            "4:69 `codings` is empty | write `compress = false`".to_owned(),
            "4:86 `gzip_level` is out of range | it takes a whole number, 1 to 9".to_owned(),
        ]
    );
    assert_eq!(
        brief(&site("compress = \"gzip\"")),
        [
            "4:12 `compress`: expected true, false or a table, found a string | `compress` takes `true`, `false`, or a table, see `compress`"
        ]
    );
    assert_eq!(
        brief(&site("compress = { codings = [\"deflate\"] }")),
        ["4:25 `codings` does not take \"deflate\" | it takes \"br\", \"zstd\", \"gzip\""]
    );
}
