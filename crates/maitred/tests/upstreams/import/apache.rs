//! The table of docs/from-apache.md: what stands on the left has to be a directive
//! of Apache's, by its own list, and what stands on the right keys of the configuration here, with values that are accepted.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::skip_missing;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the table: what stands between backticks on each side.
fn rows() -> Vec<(Vec<String>, Vec<String>)> {
    let page = std::fs::read_to_string(root().join("docs/from-apache.md")).unwrap();
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let row = |line: &str| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        // A `\|` is no end of a cell.
        let (left, right) = line.split_once(" | ")?;
        Some((quoted(left), quoted(right)))
    };
    page.lines().filter_map(row).filter(|(left, _): &(Vec<String>, _)| !left.is_empty()).collect()
}

/// The name of a directive: `<Location>` and `AuthType Basic` have one.
fn directive(text: &str) -> &str {
    text.trim_matches(['<', '>']).split(' ').next().unwrap_or_default()
}

/// What is no directive of Apache's own modules: other modules, `.htaccess`, the second word of `Options`.
const OTHERS: [&str; 15] = [
    "php_value",
    "php_flag",
    "php_admin_value",
    // Its list has them in small letters.
    "Order",
    "Allow",
    "Deny",
    ".htaccess",
    "FollowSymLinks",
    "XSendFile",
    "WSGIScriptAlias",
    "WSGIDaemonProcess",
    "mod_security",
    "mod_dav",
    "mod_include",
    "mod_cache",
];

#[test]
fn what_the_page_about_apache_names_is_there() {
    let Some(program) =
        ["/usr/sbin/apache2", "/usr/local/sbin/apache2"].iter().find(|file| Path::new(file).exists())
    else {
        return skip_missing("no apache2 (Debian: apache2-bin)");
    };
    let directory = tempfile::tempdir().unwrap();
    let modules: String = std::fs::read_dir("/usr/lib/apache2/modules")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| {
            let name = file.strip_prefix("mod_")?.strip_suffix(".so")?.to_owned();
            let wanted = [
                "mpm_event",
                "alias",
                "authz_core",
                "authz_host",
                "authn_core",
                "authn_file",
                "auth_basic",
                "access_compat",
                "dir",
                "autoindex",
                "cache",
                "cache_disk",
                "expires",
                "deflate",
                "filter",
                "headers",
                "log_config",
                "macro",
                "md",
                "mime",
                "proxy",
                "proxy_http",
                "proxy_fcgi",
                "remoteip",
                "reqtimeout",
                "rewrite",
                "ssl",
                "setenvif",
                "socache_shmcb",
            ];
            wanted
                .contains(&&*name)
                .then(|| format!("LoadModule {name}_module /usr/lib/apache2/modules/{file}\n"))
        })
        .collect();
    let file = directory.path().join("apache.conf");
    // Modules that others need come first.
    let mut lines: Vec<&str> = modules.lines().collect();
    let late =
        |line: &&str| ["_http_", "_fcgi_", " md_", " cache_disk_"].iter().any(|part| line.contains(part));
    lines.sort_by_key(late);
    let root = directory.path().display();
    let text =
        format!("ServerRoot {root}\nServerName localhost\nErrorLog {root}/error.log\n{}\n", lines.join("\n"));
    std::fs::write(&file, text).unwrap();
    let output = Command::new(program).arg("-f").arg(&file).arg("-L").output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    let known: Vec<&str> = list
        .lines()
        .filter_map(|line| {
            line.split_once(" (").map(|(name, _)| name.trim_start_matches('<').trim_end_matches('>'))
        })
        .collect();
    assert!(known.len() > 200, "{}{}", list, String::from_utf8_lossy(&output.stderr));
    let rows = rows();
    assert!(rows.len() >= 25, "{rows:?}");
    let unknown: Vec<&str> = rows
        .iter()
        .flat_map(|(left, _)| left)
        .map(|text| directive(text))
        .filter(|name| !OTHERS.contains(name) && !known.contains(name))
        .collect();
    assert!(unknown.is_empty(), "Apache has no {unknown:?}");
}

/// All names of keys in the schema.
fn keys(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                found.extend(properties.keys().cloned());
            }
            fields.values().for_each(|value| keys(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn what_the_page_about_apache_has_instead_are_keys() {
    let schema = std::fs::read_to_string(root().join("docs/maitred.schema.json")).unwrap();
    let mut known = Vec::new();
    keys(&serde_json::from_str(&schema).unwrap(), &mut known);
    let mut tried = 0;
    for (left, right) in rows() {
        for text in right {
            let name = text.trim_matches(['[', ']']).split([' ', '.', '=']).next().unwrap_or_default();
            // Names of Apache's own, and of response fields, in what is said about them.
            if text.starts_with(char::is_uppercase) || text.contains('…') && !text.contains('=') {
                continue;
            }
            assert!(known.iter().any(|key| key == name), "no key `{name}` for {left:?}");
            tried += 1;
        }
    }
    assert!(tried >= 35, "{tried}");
}

/// The examples with values are read as what they are: keys of a route, of a site or of a pool.
#[test]
fn the_examples_on_the_page_about_apache_are_accepted() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("users.htpasswd"), "").unwrap();
    let mut tried = 0;
    for text in rows().into_iter().flat_map(|(_, right)| right) {
        if !text.contains(" = ") || text.contains('…') {
            continue;
        }
        let php = format!("connect = \"fastcgi://127.0.0.1:9000\"\nroot = \".\"\n{text}");
        let (pool, route) = match text.split(' ').next() {
            Some("params") => (php.as_str(), "pool = \"app\""),
            Some("command") => (text.as_str(), "pool = \"app\""),
            Some("php") => {
                ("connect = \"fastcgi://127.0.0.1:9000\"\nroot = \".\"\nphp = true", "pool = \"app\"")
            }
            Some("satisfy") => (
                "connect = \"http://127.0.0.1:9\"",
                "root = \".\"\nallow = [\"10.0.0.0/8\"]\nbasic_auth = { users_file = \"users.htpasswd\" }\nsatisfy = \"any\"",
            ),
            _ => ("connect = \"http://127.0.0.1:9\"", text.as_str()),
        };
        let route = if route.contains("pool") || route.contains("root = ") {
            route.to_owned()
        } else {
            format!("root = \".\"\n{route}")
        };
        let config = format!(
            "[server]\nshare_user = true\n[[listen]]\naddress = \"127.0.0.1:8080\"\n[pool.app]\n{pool}\n[[site]]\n\
             [[site.route]]\npath = \"/x/*\"\n{route}\n[[site.route]]\npath = \"/*\"\npool = \"app\"\n"
        );
        let file = directory.path().join("maitred.toml");
        std::fs::write(&file, &config).unwrap();
        let output = crate::import::maitred(&["check", "-c", file.to_str().unwrap()]);
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}\n{config}\n{said}");
        tried += 1;
    }
    assert!(tried >= 6, "{tried}");
}
