//! WordPress with php-fpm: the script takes what is no file.

use crate::setups::{example, get, place};
use crate::support::php::Php;
use crate::support::{Server, Setup, eventually};

/// Says which script ran, and for what.
const SCRIPT: &[u8] = b"<?php header('Content-Type: text/plain'); header('X-Powered-By: test'); echo basename($_SERVER['SCRIPT_NAME']), ' ', \
                        $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', strlen(file_get_contents('php://input'));";

fn start(php: &Php) -> Server {
    let setup = Setup::new()
        .outside("wordpress/index.php", SCRIPT)
        .outside("wordpress/wp-login.php", SCRIPT)
        .outside("wordpress/wp-admin/index.php", SCRIPT)
        .outside("wordpress/wp-content/uploads/evil.php", SCRIPT)
        .outside("wordpress/wp-content/uploads/a.png", b"png")
        .outside("wordpress/wp-content/style.css", b"a{}\n")
        .outside("wordpress/robots.txt", b"User-agent: *\n")
        .outside("wordpress/.htaccess", b"hidden");
    for name in ["wordpress", "wordpress/wp-admin", "wordpress/wp-content", "wordpress/wp-content/uploads"] {
        place(&setup, name);
    }
    let root = setup.directory.path().join("wordpress");
    let places = [
        ("/srv/wordpress", root.to_str().unwrap()),
        ("fastcgi+unix:/run/php/php8.2-fpm.sock", &php.url()),
        ("/var/cache/maitred", "store"),
    ];
    example("wordpress", setup, &places)
}

#[test]
fn each_location_answers_as_in_nginx() {
    let Some(php) = Php::fpm(2) else { return };
    let server = start(&php);
    let get = |target: &str| get(&server, "blog.example.com", target, "");
    // `try_files $uri $uri/ /index.php?$args`
    for (target, script) in [
        ("/", "index.php GET / 0"),
        ("/2026/11/a-post/?p=1", "index.php GET /2026/11/a-post/?p=1 0"),
        ("/wp-login.php", "wp-login.php GET /wp-login.php 0"),
        ("/wp-admin/", "index.php GET /wp-admin/ 0"),
    ] {
        let told = get(target);
        assert_eq!((told.status, told.text()), (200, script), "{target}");
    }
    // `fastcgi_cache`, with `$skip_cache` for those who are logged in.
    let cached = |target: &str, fields: &str| {
        let response = crate::setups::get(&server, "blog.example.com", target, fields);
        response.field("cache-status").map(str::to_owned)
    };
    eventually("a page is kept for a second", || {
        cached("/kept", "").is_some_and(|said| said.starts_with("maitred; hit"))
    });
    assert_eq!(cached("/kept", "Cookie: wordpress_logged_in_x=1\r\n"), None);
    assert_eq!(cached("/wp-login.php", ""), None);
    // No scripts among uploads, no source, no hidden files.
    assert_eq!(get("/wp-content/uploads/evil.php").status, 403);
    assert!(!get("/.htaccess").text().contains("hidden"));
    for target in ["/wp-content/style.css", "/wp-content/uploads/a.png"] {
        let file = get(target);
        assert_eq!((file.status, file.need("cache-control")), (200, "max-age=315360000"), "{target}");
    }
    assert_eq!(get("/robots.txt").text(), "User-agent: *\n");
    let posted = server.connect().ask(
        "POST /wp-login.php HTTP/1.1\r\nHost: blog.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 5\r\n\r\nlog=a",
    );
    assert_eq!(posted.text(), "wp-login.php POST /wp-login.php 5");
    // `client_max_body_size 64m`
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: blog.example.com\r\nContent-Length: 70000000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 413);
}
