//! A copy of a configuration that nginx can run beside an import: on loopback, below one directory, with one application for all
//! servers.
//!
//! What differs from the original differs for both: ports, paths of files, certificates, addresses of applications. What only
//! concerns the machine (accounts, logs, process ids) is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::tree::Directive;

/// Where a copy runs.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The directory of what it has alone.
    pub directory: PathBuf,
    /// The directory of the files that it serves, the same for both copies: applications are told of paths.
    pub files: PathBuf,
    /// What answers for all servers that requests are passed to.
    pub application: SocketAddr,
    /// For each configured port the one that is listened on.
    pub ports: BTreeMap<u16, u16>,
    /// A certificate and its key, in PEM, for all names.
    pub certificate: (PathBuf, PathBuf),
}

/// What is about the machine, needs other machines, or nothing that nginx of a distribution has.
const LEFT_OUT: &[&str] = &[
    "proxy_store",
    "fastcgi_store",
    "uwsgi_store",
    "scgi_store",
    "dav_methods",
    "user",
    "pid",
    "daemon",
    "master_process",
    "worker_processes",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_nofile",
    "load_module",
    "env",
    "lock_file",
    "working_directory",
    "events",
    "stream",
    "mail",
    "access_log",
    "error_log",
    "log_format",
    "open_log_file_cache",
    "ssl_dhparam",
    "ssl_trusted_certificate",
    "ssl_stapling",
    "ssl_stapling_verify",
    "ssl_stapling_file",
    "ssl_session_ticket_key",
    "ssl_password_file",
    "resolver",
    "http2",
    "http3",
    "http3_hq",
    "quic_retry",
    "quic_gso",
    "ssl_early_data",
    "thread_pool",
    "aio",
    // Which requests these refuse depends on the time.
    "limit_req",
    "limit_conn",
    "limit_rate",
    "limit_rate_after",
    "client_body_temp_path",
    "proxy_temp_path",
    "fastcgi_temp_path",
    "uwsgi_temp_path",
    "scgi_temp_path",
];

/// The root of a server that names none, as distributions build nginx.
const DEFAULT_ROOT: &str = "/usr/share/nginx/html";

/// Parameters of `listen` that the copy has, too.
const OF_LISTEN: &[&str] = &["ssl", "default_server", "default"];

/// The ports that servers listen on, and whether each has TLS.
pub(crate) fn ports(http: &[Directive]) -> BTreeMap<u16, bool> {
    let mut found = BTreeMap::new();
    for server in http.iter().filter(|directive| directive.name == "server") {
        let listens: Vec<&Directive> = server.inside().iter().filter(|one| one.name == "listen").collect();
        if listens.is_empty() {
            found.entry(80).or_insert(false);
        }
        for listen in listens {
            if let Some(port) = port(listen.arg(0)) {
                *found.entry(port).or_default() |= listen.args.iter().any(|arg| arg == "ssl");
            }
        }
    }
    found
}

/// The port of an address of `listen`; `None` for a Unix socket, and for what is no address.
fn port(address: &str) -> Option<u16> {
    if address.starts_with("unix:") {
        return None;
    }
    let last = address.rsplit(':').next().unwrap_or(address);
    match (last.parse::<u16>(), address.ends_with(']') || !address.contains(':')) {
        (Ok(port), _) => Some(port).filter(|port| *port > 0),
        (Err(_), true) => Some(80),
        (Err(_), false) => None,
    }
}

/// The text of the copy: what stands in `http { … }`, and around it what nginx needs to run in the foreground.
pub(crate) fn copy(http: &[Directive], stage: &Stage) -> String {
    let mut writer = Writer { stage, text: String::new(), depth: 1, upstreams: names(http) };
    for directive in http {
        writer.directive(directive);
    }
    let directory = stage.directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {directory}/temporary/{kind};\n"))
        .collect();
    // nginx's own default, which is below its prefix otherwise.
    let root = match http.iter().any(|directive| directive.name == "root") {
        true => String::new(),
        false => format!("    root {};\n", stage.below(DEFAULT_ROOT)),
    };
    format!(
        "daemon off;\nworker_processes 1;\npid {directory}/nginx.pid;\nerror_log {directory}/error.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\n    access_log off;\n{temporary}{root}{}}}\n",
        writer.text
    )
}

fn names(http: &[Directive]) -> Vec<String> {
    http.iter().filter(|one| one.name == "upstream").map(|one| one.arg(0).to_owned()).collect()
}

/// The directories of files that a copy serves, with names that the configuration expects there.
pub(crate) fn directories(http: &[Directive], stage: &Stage) -> Vec<(PathBuf, Vec<String>)> {
    let mut found: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let mut wanted = Vec::new();
    found.insert(PathBuf::from(stage.below(DEFAULT_ROOT)), Vec::new());
    gather(http, stage, &mut found, &mut wanted);
    wanted.sort();
    wanted.dedup();
    found.values_mut().for_each(|names| names.clone_from(&wanted));
    found.into_iter().collect()
}

fn gather(
    block: &[Directive],
    stage: &Stage,
    found: &mut BTreeMap<PathBuf, Vec<String>>,
    wanted: &mut Vec<String>,
) {
    let plain = |arg: &&String| !arg.contains(['$', '@', '=', ':']) && !arg.contains("..");
    for one in block {
        match one.name.as_str() {
            // What has an ending is a file, as `location = /favicon.ico` has it.
            "alias" if is_file(one.arg(0)) => {
                let path = PathBuf::from(stage.below(one.arg(0)));
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                let directory = path.parent().map(Path::to_owned);
                found.entry(directory.unwrap_or_default()).or_default();
                wanted.extend(name);
            }
            "root" | "alias" if !one.arg(0).contains('$') => {
                found.entry(PathBuf::from(stage.below(one.arg(0)))).or_default();
            }
            "index" | "try_files" => wanted.extend(one.args.iter().filter(plain).cloned()),
            "error_page" => wanted.extend(one.args.last().filter(plain).cloned()),
            _ => {}
        }
        gather(one.inside(), stage, found, wanted);
    }
}

/// Whether a path without variables has an ending.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    !path.contains('$') && name.contains('.') && !name.starts_with('.')
}

impl Stage {
    /// A path of the configuration, as the copy has it.
    fn below(&self, path: &str) -> String {
        let path = super::translate::absolute(path);
        format!("{}{path}", self.files.display())
    }

    /// Where passwords are: one file for all, with the user `user`, whose password is `password`.
    fn users(&self) -> String {
        format!("{}/.users", self.files.display())
    }
}

struct Writer<'a> {
    stage: &'a Stage,
    text: String,
    depth: usize,
    upstreams: Vec<String>,
}

impl Writer<'_> {
    fn directive(&mut self, directive: &Directive) {
        let name = directive.name.as_str();
        if LEFT_OUT.contains(&name) {
            return;
        }
        let args = match (name, directive.block.is_some()) {
            ("listen", _) => match self.listen(directive) {
                Some(args) => args,
                None => return,
            },
            ("server", false) => self.server(directive),
            _ => self.args(directive),
        };
        let _ = write!(self.text, "{:1$}{2}", "", self.depth * 4, word(name));
        for arg in &args {
            let _ = write!(self.text, " {}", word(arg));
        }
        match directive.block.as_deref() {
            None => self.text.push_str(";\n"),
            Some(inside) => {
                self.text.push_str(" {\n");
                self.depth += 1;
                let silent = name == "server" && !inside.iter().any(|one| one.name == "listen");
                if let Some(here) = self.stage.ports.get(&80).filter(|_| silent) {
                    let _ = writeln!(self.text, "{:1$}listen 127.0.0.1:{here};", "", self.depth * 4);
                }
                let start = self.text.len();
                inside.iter().for_each(|one| self.directive(one));
                if name == "server" {
                    self.once(start, "listen ");
                }
                self.depth -= 1;
                let _ = writeln!(self.text, "{:1$}}}", "", self.depth * 4);
            }
        }
    }

    /// Addresses of IPv4 and IPv6 have become the same.
    fn once(&mut self, start: usize, name: &str) {
        let mut seen: Vec<String> = Vec::new();
        let mut kept = String::new();
        for line in self.text.get(start..).unwrap_or_default().lines() {
            let trimmed = line.trim_start();
            let address =
                trimmed.strip_prefix(name).map(|rest| rest.split([' ', ';']).next().unwrap_or_default());
            if let Some(address) = address {
                if seen.iter().any(|known| known == address) {
                    continue;
                }
                seen.push(address.to_owned());
            }
            kept.push_str(line);
            kept.push('\n');
        }
        self.text.truncate(start);
        self.text.push_str(&kept);
    }

    fn listen(&self, directive: &Directive) -> Option<Vec<String>> {
        let here = self.stage.ports.get(&port(directive.arg(0))?)?;
        let flags = directive.args.iter().skip(1).filter(|arg| OF_LISTEN.contains(&arg.as_str()));
        Some(std::iter::once(format!("127.0.0.1:{here}")).chain(flags.cloned()).collect())
    }

    /// A server of an `upstream`.
    fn server(&self, directive: &Directive) -> Vec<String> {
        let others = directive.args.iter().skip(1);
        let others = others.filter(|arg| *arg != "resolve" && !arg.starts_with("service="));
        std::iter::once(self.stage.application.to_string()).chain(others.cloned()).collect()
    }

    fn args(&self, directive: &Directive) -> Vec<String> {
        let stage = self.stage;
        let first = |text: String| {
            std::iter::once(text).chain(directive.args.iter().skip(1).cloned()).collect::<Vec<_>>()
        };
        match directive.name.as_str() {
            "root" | "alias" => first(stage.below(directive.arg(0))),
            "ssl_certificate" => first(stage.certificate.0.display().to_string()),
            "ssl_certificate_key" => first(stage.certificate.1.display().to_string()),
            "ssl_client_certificate" => first(stage.certificate.0.display().to_string()),
            "auth_basic_user_file" => first(stage.users()),
            "proxy_cache_path" | "fastcgi_cache_path" => {
                first(format!("{}/cache{}", stage.directory.display(), directive.arg(0)))
            }
            "proxy_pass" => first(self.passed(directive.arg(0))),
            // No request of a comparison leaves the machine, or reaches an application that is in use.
            "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "grpc_pass" | "memcached_pass" => {
                first(stage.application.to_string())
            }
            _ => directive.args.clone(),
        }
    }

    /// A URL of `proxy_pass` at the application, unless it names an `upstream`, whose servers are there, too.
    fn passed(&self, url: &str) -> String {
        let at_application = || format!("http://{}", self.stage.application);
        let Some((_, rest)) = url.split_once("://") else { return at_application() };
        let end = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.contains('$') || rest.starts_with("unix:") && path.is_empty() {
            return at_application();
        }
        if self.upstreams.iter().any(|name| name == host) {
            return format!("http://{rest}");
        }
        let path =
            rest.strip_prefix("unix:").map_or(path, |rest| rest.split_once(':').map_or("", |(_, path)| path));
        format!("http://{}{path}", self.stage.application)
    }
}

/// A word as nginx reads it back (`ngx_conf_read_token`).
fn word(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"\"'\\;{}#".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' if rest.peek().is_none_or(|next| "\"'\\trn".contains(*next)) => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes what a copy needs besides its text: files to serve, and a user.
///
/// # Errors
/// What cannot be written.
pub(crate) fn populate(directories: &[(PathBuf, Vec<String>)], stage: &Stage) -> std::io::Result<()> {
    std::fs::create_dir_all(stage.directory.join("temporary"))?;
    std::fs::create_dir_all(&stage.files)?;
    std::fs::write(stage.users(), USERS)?;
    for (directory, names) in directories {
        let usual = SAMPLES.iter().map(|name| (*name).to_owned());
        for name in usual.chain(names.iter().cloned()) {
            let path = directory.join(name.trim_start_matches('/'));
            if name.ends_with('/') || path.exists() {
                continue;
            }
            if std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).is_ok() {
                // A name may be that of a directory which another one made.
                let below = directory.strip_prefix(&stage.files).unwrap_or(directory);
                let line = format!("{name} of {}\n", below.display());
                let lines = if name.ends_with(".txt") { 1 } else { LINES };
                let _ = std::fs::write(&path, line.repeat(lines));
            }
        }
    }
    Ok(())
}

/// The user of a copy, with the password `password`, in a form that both servers read (Apache's MD5).
const USERS: &str = "user:$apr1$maitred0$5DuPxgp7D735ON6utdgAD1\n";

/// Lines of a file that is no text: as many as make it worth compressing.
const LINES: usize = 64;

/// Files that each directory has: what locations of public configurations ask for.
const SAMPLES: &[&str] = &[
    "index.html",
    "about.html",
    "style.css",
    "app.js",
    "a.txt",
    "icon.png",
    "data.json",
    "font.woff2",
    "index.php",
    "a b.txt",
    ".hidden",
    ".git/config",
    "docs/index.html",
    "docs/page.html",
    "assets/app.js",
    "assets/style.css",
    "static/app.js",
    "media/m.txt",
    "img/logo.svg",
    "images/logo.png",
    "css/site.css",
    "js/site.js",
    "empty/.keep",
];

/// The directories of [`SAMPLES`]. None of them has the index of every configuration.
pub(crate) fn sample_directories() -> Vec<&'static str> {
    let mut found: Vec<&str> = SAMPLES.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::tree::parse;

    fn stage() -> Stage {
        Stage {
            directory: "/t".into(),
            files: "/t/files".into(),
            application: ([127, 0, 0, 1], 9000).into(),
            ports: [(80, 8080), (443, 8443), (8000, 8001)].into(),
            certificate: ("/t/c.pem".into(), "/t/k.pem".into()),
        }
    }

    fn copied(text: &str) -> String {
        copy(&parse(&"text".into(), text).unwrap(), &stage())
    }

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        for text in [
            "",
            "a",
            "a b",
            "^/(?<id>[0-9]{2,3})\\.html$",
            "a\"b'c",
            "\\\\",
            "${a}b",
            "x;y",
            "#",
            "a\\nb",
            "\\",
        ] {
            let line = format!("name {};", word(text));
            let read = parse(&"x".into(), &line).unwrap_or_else(|wrong| panic!("{line}: {}", wrong.message));
            assert_eq!(read[0].args, [text], "{line}");
        }
    }

    #[test]
    fn addresses_become_those_of_the_stage() {
        let text = copied(
            "user www; upstream app { server 10.0.0.1:80 weight=2; } server { listen 80 default_server; listen [::]:80; \
             listen 443 ssl http2; listen unix:/a; ssl_certificate /a; ssl_certificate_key /b; \
             location / { proxy_pass http://app; } location /x/ { proxy_pass https://example.com:99/y/; } \
             location /z { proxy_pass http://unix:/run/a.sock:/z; } location /v { proxy_pass $any; } \
             location /w { fastcgi_pass unix:/run/php.sock; } location /s { proxy_store /srv/x; } }",
        );
        for line in [
            "server 127.0.0.1:9000 weight=2;",
            "listen 127.0.0.1:8080 default_server;",
            "listen 127.0.0.1:8443 ssl;",
            "ssl_certificate /t/c.pem;",
            "proxy_pass http://app;",
            "proxy_pass http://127.0.0.1:9000/y/;",
            "proxy_pass http://127.0.0.1:9000/z;",
            "proxy_pass http://127.0.0.1:9000;",
            "fastcgi_pass 127.0.0.1:9000;",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}\n{text}");
        }
        assert!(
            !text.contains("user www") && !text.contains("unix") && !text.contains("proxy_store"),
            "{text}"
        );
        assert_eq!(text.matches("listen ").count(), 2, "{text}");
    }

    #[test]
    fn files_are_below_the_directory() {
        let text =
            copied("server { root /srv/www; location /a { alias /b/; } auth_basic_user_file /etc/p; }");
        for line in [
            "listen 127.0.0.1:8080;",
            "root /t/files/srv/www;",
            "alias /t/files/b/;",
            "auth_basic_user_file /t/files/.users;",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn ports_are_found() {
        let text = "server { listen 80; listen [::]:443 ssl; listen 127.0.0.1:8000; listen unix:/x; } server { } \
                    server { listen localhost; listen [::1]; }";
        let found = ports(&parse(&"x".into(), text).unwrap());
        assert_eq!(found, [(80, false), (443, true), (8000, false)].into());
    }
}
