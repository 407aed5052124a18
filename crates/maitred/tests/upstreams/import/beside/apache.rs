//! Apache httpd on a configuration, and Maitred on its import: what clients get is the same, but for what [`DIFFERENCES`] lists.
//!
//! One server of the test stands for all servers behind both, and php-cgi for php-fpm.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use regex::Regex;

use super::servers::{self, Answer, Running, Stub};
use super::{Asked, Is, differences};
use crate::import::World;
use crate::support::{binary, eventually, skip_missing};

const PROGRAM: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

/// Modules that the samples need; those that others need come first.
const LOADED: &[&str] = &[
    "mpm_event",
    "authn_core",
    "authz_core",
    "alias",
    "authz_host",
    "authz_user",
    "authz_groupfile",
    "authn_file",
    "auth_basic",
    "access_compat",
    "dir",
    "autoindex",
    "expires",
    "filter",
    "deflate",
    "headers",
    "macro",
    "mime",
    "negotiation",
    "proxy",
    "proxy_http",
    "proxy_fcgi",
    "proxy_wstunnel",
    "setenvif",
    "rewrite",
];

/// Configurations that both are given.
const SAMPLES: &[&str] = &[
    "addresses",
    "aliases",
    "bad-bots",
    "basic-auth",
    "debian-default",
    "endings",
    "error-pages",
    "expressions",
    "headers-expires",
    "hotlinks",
    "https-redirect",
    "maintenance",
    "methods",
    "names",
    "old-access",
    "redirects",
    "reverse-proxy",
    "spa",
    "spa-rules",
    "www",
];

/// Those that run scripts.
const SCRIPTS: &[&str] = &["php-fpm", "pretty-urls", "symfony", "wordpress"];

/// Those that run scripts in Apache itself. Here php-cgi does, by a line that is added.
const INSIDE: &[&str] = &["php-inside"];

/// What is asked of every server.
const PATHS: &[&str] = &[
    "/",
    "/index.html",
    "/about.html",
    "/about",
    "/style.css",
    "/a.txt",
    "/a.txt?x=1",
    "/docs",
    "/docs/",
    "/docs/x",
    "/assets/app.js",
    "/nope",
    "/nope/",
    "/nope.js?a=1",
    "/.htaccess",
    "/a/",
    "/b/x",
    "/own",
    "/old",
    "/old/x?y=1",
    "/older",
    "/docs/latest/a",
    "/gone",
    "/gone.html",
    "/moved.html",
    "/today",
    "/blog/2024/x%20y?a=b",
    "/x.bak",
    "/legacy",
    "/legacy/a",
    "/.git/config",
    "/static",
    "/static/site.css",
    "/static/sub/x.txt",
    "/m",
    "/m/m.txt",
    "/media/m.txt",
    "/media/none",
    "/favicon.ico",
    "/api",
    "/api/",
    "/api/users?x=1",
    "/app",
    "/admin",
    "/admin/x",
    "/server-status",
    "/index",
    "/team",
    "/team.html",
    "/sub/page",
    "/sub/",
    "/new/a.txt",
    "/secret",
    "/secret/x",
    "/a.png",
    "/b.txt",
    "/app.js",
    "/route/of/app",
    "/x/",
    "/y",
];

/// What is asked of those that run scripts, besides.
const OF_SCRIPTS: &[&str] = &[
    "/index.php",
    "/index.php?x=1",
    "/index.php/a/b?x=1",
    "/wp-login.php",
    "/wp-admin/",
    "/wp-admin",
    "/wp-config.php",
    "/2024/05/a-post/",
    "/page?p=1",
    "/none.php",
    "/articles/17",
    "/articles/17/?x=1",
    "/shoes-p2.html",
    "/about",
    "/user/ann",
    "/user/ANN?x=1",
    "/tools/info.php",
    "/tools/",
    "/sub/",
    "/sub",
    "/uploads/a.txt",
    "/build/app.css",
    "/robots.txt",
    "/css/",
    "/users/",
    "/users/7/",
    "/assets/app.css",
    "/system/x",
    "/system/",
    "/style.css",
    "/w/index.php?title=A",
    "/wiki/Main_Page",
    "/wiki",
    "/wiki/A/B?action=edit",
    "/w/load.php",
    "/w/images/a.txt",
    "/w/images/deleted/b.txt",
    "/core/misc/drupal.css",
    "/composer.json",
    "/sites/x.module",
    "/install.php",
    "/favicon.ico",
    "/node/1",
    "/shop/",
    "/shop",
    "/shop/shop.css",
    "/shop/shoes/7?x=1",
    "/private/a.txt",
    "/private/",
    "/notes/n.txt",
    "/notes/n.CSS",
    "/notes/none.css",
    "/pictures/7",
    "/backup.SQL",
    "/LICENSE",
    "/css/site.css",
    "/css/none.css",
    "/tools.php",
    "/tools.php/a",
];

/// Responses that differ on purpose, each with the reason and how it is known.
const DIFFERENCES: &[(&str, Is)] = &[
    ("names that begin with a dot are withheld (`hidden`): 404", |asked, there, here| {
        asked.target.contains("/.") && here.status == 404 && [403, 200].contains(&there.status)
    }),
    (
        "a directory without an index is nothing: 404, or what answers for what is no file",
        |asked, there, here| {
            let directory = asked.target.split('?').next().unwrap_or_default();
            let is_one = directory.ends_with('/') || there.status == 301;
            is_one && [301, 403, 404, 405].contains(&there.status) && [200, 404].contains(&here.status)
        },
    ),
    ("what is not there, or is no file, has no methods: 404 or 405", |asked, there, here| {
        asked.method != "GET"
            && asked.method != "HEAD"
            && [404, 405].contains(&here.status)
            && there.status >= 400
    }),
    ("files answer `OPTIONS` with 204, and other methods with 405", |asked, there, here| {
        asked.method != "GET"
            && asked.method != "HEAD"
            && [204, 405].contains(&here.status)
            && [200, 301, 404, 405].contains(&there.status)
    }),
    ("what a section says of some methods leaves those of the directory around it", |_, there, here| {
        there.status == 405 && here.status == 403
    }),
    ("a script that is not there is 404, and goes to no front controller", |asked, there, here| {
        asked.target.contains(".php") && here.status == 404 && there.status == 200
    }),
    ("a query of a rule keeps the `&` in front of that of the client, if there is none", |_, there, here| {
        there.status == here.status && here.body.replace("&\n", "\n") == there.body
    }),
    ("a redirect keeps the `?` of an empty query", |_, there, here| {
        let to = |answer: &Answer| {
            answer
                .fields
                .iter()
                .find(|(name, _)| name == "location")
                .map(|(_, value)| value.trim_end_matches('?').to_owned())
        };
        there.status == here.status
            && to(here).is_some_and(|own| to(there).is_some_and(|other| other.ends_with(&own)))
    }),
    ("a file that is not there has the rules of its path; httpd looks first: 404", |_, there, here| {
        there.status == 404 && here.status == 403
    }),
    ("listings are pages of the server's own", |_, there, here| {
        there.body.contains("<title>Index of") && here.body.contains("<title>Index of")
    }),
    ("a path behind a file is nothing: 404", |_, there, here| {
        there.status == here.status && there.status == 404
    }),
];

/// What both are asked.
fn asked(text: &str, scripts: bool) -> BTreeSet<Asked> {
    let name = Regex::new(r"(?m)^\s*Server(?:Name|Alias)\s+(.*)$").unwrap();
    let mut hosts: Vec<String> = vec!["other.example".into()];
    for found in name.captures_iter(text) {
        hosts.extend(
            found[1]
                .split_whitespace()
                .filter(|name| name.contains('.') && !name.contains('*'))
                .map(str::to_owned),
        );
    }
    let mut all = BTreeSet::new();
    for host in hosts {
        let more = if scripts { OF_SCRIPTS } else { &[] };
        for target in PATHS.iter().chain(more) {
            let several = ["/", "/docs/", "/a.txt", "/api/users?x=1", "/index.php"].contains(target);
            let methods: &[&'static str] = match several {
                true => &["GET", "HEAD", "POST", "DELETE"],
                false => &["GET"],
            };
            for method in methods {
                all.insert(Asked { method, host: host.clone(), target: (*target).to_owned(), fields: "" });
            }
        }
    }
    all
}

/// A text in which all servers behind are those of the test, and which listens at another address.
fn placed(text: &str, address: SocketAddr, stub: SocketAddr, php: Option<SocketAddr>) -> String {
    let replaced =
        |text: &str, pattern: &str, by: &str| Regex::new(pattern).unwrap().replace_all(text, by).into_owned();
    let text = replaced(text, r"127\.0\.0\.1:(3000|3001|5000|8080)", &stub.to_string());
    let text = replaced(&text, r"<VirtualHost [^>]*>", &format!("<VirtualHost {address}>"));
    // Logs would go to the machine's.
    let text = replaced(&text, r"(?m)^\s*(ErrorLog|CustomLog|NameVirtualHost)\s.*$", "");
    match php {
        Some(php) => {
            let text = replaced(&text, r"proxy:unix:[^|]*\|fcgi://localhost", &format!("proxy:fcgi://{php}"));
            replaced(&text, r"fcgi://127\.0\.0\.1:9000", &format!("fcgi://{php}"))
        }
        None => text,
    }
}

fn apache(world: &World, text: &str, (socket, address): (OwnedFd, SocketAddr)) -> Running {
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let directory = servers::directory();
    let root = directory.path().display().to_string();
    fs::write(directory.path().join("site.conf"), text).unwrap();
    let modules: String =
        LOADED.iter().map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n")).collect();
    let account = if rustix::process::geteuid().is_root() { "User nobody\nGroup nogroup\n" } else { "" };
    let whole = format!(
        "ServerRoot {root}\nPidFile {root}/pid\nMutex sem\nServerName localhost\n{modules}{account}\
         ErrorLog {root}/error.log\nLogLevel warn\n\
         TypesConfig /etc/mime.types\nProxyFCGIBackendType GENERIC\nListen {address}\n\
         StartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nServerLimit 1\n\
         DefaultRuntimeDir {root}\nInclude site.conf\n"
    );
    fs::write(directory.path().join("apache.conf"), whole).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("-D").arg("FOREGROUND").arg("-f").arg(directory.path().join("apache.conf"));
    Running::start(command, (socket, address), directory)
}

fn maitred(text: &str, (socket, address): (OwnedFd, SocketAddr), fpm: Option<SocketAddr>) -> Running {
    let directory = servers::directory();
    let source = directory.path().join("site.conf");
    fs::write(&source, text).unwrap();
    let fpm = fpm.map(|address| format!("--php-fpm=fastcgi://{address}"));
    let mut arguments = vec!["import", "apache", source.to_str().unwrap()];
    arguments.extend(fpm.as_deref());
    let imported = crate::import::maitred(&arguments);
    fs::write(directory.path().join("maitred.toml"), crate::import::text(&imported.stdout)).unwrap();
    let mut command = Command::new(binary());
    command.arg("run").current_dir(directory.path()).env("STATE_DIRECTORY", directory.path());
    Running::start(command, (socket, address), directory)
}

/// php-cgi, which answers as php-fpm does.
struct Php(Child, SocketAddr, #[allow(dead_code)] OwnedFd);

impl Php {
    fn start() -> Option<Php> {
        let program = Path::new("/usr/bin/php-cgi");
        if !program.exists() {
            return None;
        }
        let (socket, address) = servers::reserved_address();
        let mut command = Command::new(program);
        command
            .arg("-b")
            .arg(address.to_string())
            .env("PHP_FCGI_CHILDREN", "2")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        eventually("php-cgi listens", || std::net::TcpStream::connect(address).is_ok());
        Some(Php(child, address, socket))
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

fn compare(name: &str, php: Option<&Php>) -> Vec<String> {
    let world = World::new();
    world.sites();
    let stub = Stub::start();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import/apache");
    let text = world.place(&fs::read_to_string(samples.join(format!("{name}.conf"))).unwrap());
    let (first, second) = (servers::reserved_address(), servers::reserved_address());
    let place = |address| placed(&text, address, stub.address, php.map(|php| php.1));
    let (there_text, here_text) = (place(first.1), place(second.1));
    let inside = php.filter(|_| INSIDE.contains(&name)).map(|php| php.1);
    let handler = inside.map(|php| {
        format!("<FilesMatch \"\\.php$\">\nSetHandler \"proxy:fcgi://{php}\"\n</FilesMatch>\n</VirtualHost>")
    });
    let there_text = handler.map_or(there_text.clone(), |line| there_text.replace("</VirtualHost>", &line));
    let theirs = apache(&world, &there_text, first);
    let ours = maitred(&here_text, second, inside);
    let mut wrong = Vec::new();
    for asked in asked(&text, php.is_some()) {
        let (there, here) = (
            Answer::ask(theirs.address, &asked).configured(),
            Answer::ask(ours.address, &asked).configured(),
        );
        if let Some(why) = differences::beside(DIFFERENCES, &asked, &there, &here) {
            let Asked { method, host, target, .. } = asked;
            wrong.push(format!(
                "{name}: {method} {target} of {host}: {why}\n  apache  {there:?}\n  maitred {here:?}"
            ));
        }
    }
    wrong
}

fn all(samples: &[&str], php: Option<&Php>) {
    let wrong: Vec<String> = samples.iter().flat_map(|name| compare(name, php)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn clients_get_from_the_import_what_apache_gives_them() {
    if !Path::new(PROGRAM).exists() {
        return skip_missing("no apache2 (Debian: apache2-bin)");
    }
    all(SAMPLES, None);
}

#[test]
fn scripts_are_run_as_behind_apache() {
    if !Path::new(PROGRAM).exists() {
        return skip_missing("no apache2 (Debian: apache2-bin)");
    }
    let Some(php) = Php::start() else {
        return skip_missing("no php-cgi (Debian: php-cgi)");
    };
    all(SCRIPTS, Some(&php));
    all(INSIDE, Some(&php));
}
