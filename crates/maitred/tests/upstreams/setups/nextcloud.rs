//! Nextcloud with php-fpm, after the configuration for nginx in its manual.

use crate::setups::{example, get, place, redirect};
use crate::support::php::Php;
use crate::support::{Server, Setup};

/// Says which script ran, and for what.
const SCRIPT: &[u8] = b"<?php header('Content-Type: text/plain'); header('X-Powered-By: test'); echo $_SERVER['SCRIPT_NAME'], ' ', \
                        $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['REQUEST_METHOD'];";
const HOST: &str = "cloud.example.com";

fn start(php: &Php) -> Server {
    let setup = Setup::new()
        .outside("nextcloud/index.php", SCRIPT)
        .outside("nextcloud/remote.php", SCRIPT)
        .outside("nextcloud/data/secret.txt", b"secret")
        .outside("nextcloud/config/config.php", SCRIPT)
        .outside("nextcloud/core/app.mjs", b"let a;\n")
        .outside("nextcloud/core/font.woff2", b"font")
        .outside("nextcloud/robots.txt", b"User-agent: *\n");
    for name in ["nextcloud", "nextcloud/data", "nextcloud/config", "nextcloud/core"] {
        place(&setup, name);
    }
    let root = setup.directory.path().join("nextcloud");
    let places =
        [("/srv/nextcloud", root.to_str().unwrap()), ("fastcgi+unix:/run/php/php8.2-fpm.sock", &php.url())];
    example("nextcloud", setup, &places)
}

#[test]
fn each_location_answers_as_in_nginx() {
    let Some(php) = Php::fpm(2) else { return };
    let server = start(&php);
    let get = |target: &str, fields: &str| get(&server, HOST, target, fields);
    let page = get("/apps/files/", "");
    assert_eq!(page.text(), "/index.php  GET");
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "SAMEORIGIN"),
        ("x-permitted-cross-domain-policies", "none"),
        ("x-robots-tag", "noindex, nofollow"),
    ] {
        assert_eq!(page.need(name), value);
    }
    // `fastcgi_hide_header X-Powered-By`
    assert_eq!(page.field("x-powered-by"), None);
    // `if ($http_user_agent ~ ^DavClnt)`
    assert_eq!(redirect(&get("/", "User-Agent: DavClnt\r\n")), (302, "/remote.php/webdav/"));
    assert_eq!(get("/", "User-Agent: Mozilla\r\n").text(), "/index.php  GET");
    for target in ["/.well-known/carddav", "/.well-known/caldav"] {
        assert_eq!(redirect(&get(target, "")), (301, "/remote.php/dav/"), "{target}");
    }
    assert_eq!(redirect(&get("/.well-known/webfinger", "")), (301, "/index.php/.well-known/webfinger"));
    assert_eq!(redirect(&get("/remote", "")), (301, "/remote.php/remote"));
    // `fastcgi_split_path_info`
    assert_eq!(get("/remote.php/dav/files/", "").text(), "/remote.php /dav/files/ GET");
    for target in
        ["/data/secret.txt", "/config/config.php", "/.git", "/occ", "/db_structure.xml", "/3rdparty"]
    {
        assert_eq!(get(target, "").status, 404, "{target}");
    }
    let script = get("/core/app.mjs", "");
    assert_eq!((script.text(), script.need("cache-control")), ("let a;\n", "public, max-age=15778463"));
    assert!(script.need("content-type").starts_with("text/javascript"), "{script:?}");
    assert_eq!(get("/core/font.woff2", "").need("cache-control"), "max-age=604800");
    assert_eq!(get("/robots.txt", "").text(), "User-agent: *\n");
    // `client_max_body_size 512M`
    for (bytes, status) in [(500_u64 << 20, 100), (600 << 20, 413)] {
        let mut client = server.connect();
        client.send(format!(
            "PUT /remote.php/dav/x HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {bytes}\r\nExpect: 100-continue\r\n\r\n"
        ));
        assert_eq!(client.head().unwrap().status, status);
    }
}
