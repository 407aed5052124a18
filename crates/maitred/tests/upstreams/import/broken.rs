//! Whatever stands in a file: no panic, and in bounded time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use maitred_import as import;
use proptest::prelude::*;

/// Longer than any import of a test takes, on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

fn write(directory: &tempfile::TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Imports a text as each of the three; what they say does not matter.
fn all(text: impl AsRef<[u8]>) {
    let begin = Instant::now();
    import::fuzzing::read(text.as_ref());
    assert!(begin.elapsed() < LONG);
}

fn passes(text: &str) -> bool {
    let origin = maitred_config::Origin { name: "output".into(), base: "/".into() };
    maitred_config::read(text, &origin, &maitred_config::System).is_ok()
}

/// Words of all three languages, so that random texts mean something now and then.
const WORDS: &[&str] = &[
    "server",
    "location",
    "{",
    "}",
    ";",
    "/",
    "=",
    "~",
    "^~",
    "@x",
    "proxy_pass",
    "http://127.0.0.1:1",
    "return",
    "301",
    "https://$host$request_uri",
    "rewrite",
    "^/(.*)$",
    "/$1",
    "last",
    "break",
    "if",
    "($host",
    "a)",
    "try_files",
    "$uri",
    "$uri/",
    "=404",
    "root",
    "/",
    "/tmp",
    "alias",
    "add_header",
    "X",
    "\"a b\"",
    "listen",
    "80",
    "443 ssl",
    "[::]:80",
    "server_name",
    "_",
    "*.a.org",
    "upstream",
    "include",
    "file",
    "set",
    "$x",
    "$x$x",
    "{$A}",
    "reverse_proxy",
    ":3000",
    "handle",
    "handle_path",
    "/a/*",
    "file_server",
    "redir",
    "header",
    "uri",
    "strip_prefix",
    "\n",
    "\n",
    "encode",
    "gzip",
    "\"listeners\"",
    ":",
    ",",
    "[",
    "]",
    "\"routes\"",
    "\"*:80\"",
    "\"pass\"",
    "\"action\"",
    "\\",
    "'",
    "\"",
    "#",
    "fastcgi_pass",
    "expires",
    "1d",
    "deny",
    "all",
    "allow",
    "10.0.0.0/8",
    "map",
    "http",
    "error_page",
    "404",
    "/404.html",
    "index",
    "autoindex",
    "on",
    "internal",
    "limit_except",
    "GET",
    "<Directory /tmp>\n",
    "</Directory>\n",
    "<VirtualHost *:80>\n",
    "</VirtualHost>\n",
    "<If \"%{HTTP_HOST} == 'a'\">\n",
    "</If>\n",
    "\nDocumentRoot /tmp\n",
    "\nRewriteEngine On\n",
    "\nRewriteRule ^(.*)$ /x/$1 [L]\n",
    "\nRewriteCond %{HTTPS} off [OR]\n",
    "\nProxyPass / http://127.0.0.1:1/\n",
    "\nRequire all denied\n",
    "\nHeader set A b\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_reason_to_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        all(&bytes);
    }

    #[test]
    fn random_words_are_no_reason_to_panic(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..80)) {
        all(words.join(" "));
    }
}

/// Each sample, ended at some places.
#[test]
fn truncated_files_are_no_reason_to_panic() {
    let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import");
    for server in ["nginx", "unit", "caddy", "apache"] {
        for entry in std::fs::read_dir(samples.join(server)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read(&path) else { continue };
            let directory = tempfile::tempdir().unwrap();
            for end in (0..text.len()).step_by(text.len() / 6 + 1) {
                let files = [write(&directory, "file", &text[..end])];
                let _ = match server {
                    "nginx" => import::nginx(&files, None),
                    "unit" => import::unit(&files),
                    "apache" => import::apache(&files, Some(directory.path()), &[], None),
                    _ => import::caddy(&files, None),
                };
            }
        }
    }
}

#[test]
fn deep_nesting_and_sheer_size_are_bounded() {
    all("location / {".repeat(20_000));
    all("{\"a\":".repeat(20_000));
    all("a {\n".repeat(20_000));
    all("<Directory /a>\n".repeat(20_000));
    all("<IfDefine A>\n".repeat(40) + &"</IfDefine>\n".repeat(40));
    all("Define A ${A}${A}${A}x\n".repeat(64));
    all("<Macro A $b>\nUse A $b$b\nUse A $b\n</Macro>\nUse A bb\n");
    let sections = |n: usize| format!("<LocationMatch x{n}>\nHeader set A {n}\n</LocationMatch>\n");
    all("DocumentRoot /tmp\n".to_owned() + &(0..300).map(sections).collect::<String>());
    let files =
        |n: usize| format!("<FilesMatch \"(a|b)[{}]x\">\nRequire all denied\n</FilesMatch>\n", n % 10);
    all("DocumentRoot /tmp\n".to_owned() + &(0..200).map(files).collect::<String>());
    let rules = |n: usize| {
        format!(
            "RewriteCond %{{HTTP_HOST}} a{n} [OR]\nRewriteCond %{{HTTPS}} on\nRewriteRule ^{n}(.*)*$ /y/$1\n"
        )
    };
    all("DocumentRoot /tmp\nRewriteEngine On\n".to_owned() + &(0..400).map(rules).collect::<String>());
    all(format!("server {{ {} }}", "location /a { return 200; } ".repeat(800)));
    let mut sets: String = (0..60).map(|n| format!("set $a{} $a{n}$a{n};", n + 1)).collect();
    sets.push_str("set $a0 x; proxy_pass http://$a60;");
    all(format!("location / {{ {sets} }}"));
    all(format!("location ~ \"{}\" {{ return 200; }}", "(a|b)*".repeat(2000)));
    all(format!("include {};", "*".repeat(3000)));
}

#[test]
fn files_that_include_one_another_are_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let first = write(
        &directory,
        "first.conf",
        "include second.conf;\ninclude *.conf;\nserver { listen 80; return 204; }\n",
    );
    write(&directory, "second.conf", "include first.conf;\ninclude second.conf;\n");
    for number in 0..40 {
        write(&directory, &format!("x{number}.conf"), "include x*.conf;\n");
    }
    let begin = Instant::now();
    let imported = import::nginx(&[first], Some(directory.path())).unwrap();
    assert!(begin.elapsed() < LONG);
    assert!(
        imported.report.verdict() == maitred_import::Verdict::Incomplete && passes(&imported.text),
        "{}",
        imported.text
    );
}
