//! The configuration of an application, as text.

use std::fmt::Write as _;

use super::{Application, Files, Kind};

/// What the text says besides the application.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The address, without `domains`.
    pub listen: String,
    /// Names that get automatic certificates.
    pub domains: Vec<String>,
    /// Processes of the pool.
    pub workers: Option<u16>,
    /// Account of the worker process and of the application's processes.
    pub user: Option<String>,
    /// Whether it is what one line of a command stands for: for one user, who waits for the application, and whose environment is
    /// meant for it.
    pub one_line: bool,
}

/// The whole text.
pub fn text(application: &Application, settings: &Settings) -> String {
    let mut out =
        format!("# {}, found by {}.\n\n", one_line(application.name), one_line(&application.because));
    server(&mut out, settings);
    listeners(&mut out, settings);
    site(&mut out, application, settings);
    pool(&mut out, application, settings);
    out
}

fn server(out: &mut String, settings: &Settings) {
    out.push_str("[server]\n");
    match &settings.user {
        Some(user) => {
            out.push_str("# The worker process and the application have this account. Two are better: `user` of the pool.\n");
            let _ = writeln!(out, "user = {}", quoted(user));
        }
        None => {
            out.push_str("# All processes have the account that starts the server. For production: `user`.\n")
        }
    }
    out.push_str("share_user = true\n\n");
}

fn listeners(out: &mut String, settings: &Settings) {
    if settings.domains.is_empty() {
        out.push_str("# Where clients connect; \":8080\" is every address of the machine.\n");
        let _ = writeln!(out, "[[listen]]\naddress = {}\n", quoted(&settings.listen));
        return;
    }
    out.push_str("# Automatic certificates.\n[acme]\nagree = true   # to the terms of service of the certificate authority\n\n");
    out.push_str("# Browsers that come by HTTP are sent to HTTPS.\n[[listen]]\naddress = \":80\"\nredirect_http = true\n\n");
    out.push_str("[[listen]]\naddress = \":443\"\ntls = {}\n\n");
}

fn site(out: &mut String, application: &Application, settings: &Settings) {
    out.push_str(match (&application.kind, settings.domains.is_empty()) {
        (Kind::Files(_), _) => "# Files below `root`.\n[[site]]\n",
        (_, true) => "# Every host name that clients ask for.\n[[site]]\n",
        (_, false) => "# These host names.\n[[site]]\n",
    });
    if !settings.domains.is_empty() {
        let _ = writeln!(out, "hosts = {}\nacme = true", array(&settings.domains));
    }
    if let Kind::Files(files) = &application.kind {
        return files_first(out, files, None);
    }
    let (at_root, below): (Vec<_>, Vec<_>) = application.assets.iter().partition(|(path, _)| *path == "/");
    if let Some((files, _)) = &application.front {
        out.push_str("# The browser's program: all paths that no route below has.\n");
        files_first(out, files, None);
    } else if let Some((_, root)) = at_root.first() {
        out.push_str("# Files come first; what is none is the application's.\n");
        files_first(out, &Files { root: root.clone(), tries: Vec::new() }, Some("pool:web"));
    }
    for (path, root) in below {
        out.push_str("\n# Files are served without the application.\n[[site.route]]\n");
        let _ = writeln!(out, "path = {}\nroot = {}", quoted(&format!("{path}*")), quoted(root));
        let _ = writeln!(out, "strip_prefix = {}", quoted(path));
    }
    for path in application.front.iter().flat_map(|(_, paths)| paths) {
        out.push_str("\n# The application's: one route for each path that the browser's program asks for.\n[[site.route]]\n");
        let _ = writeln!(out, "path = {}\npool = \"web\"", quoted(path));
    }
    if at_root.is_empty() && application.front.is_none() {
        out.push_str("\n# All else is the application's.\n[[site.route]]\npath = \"/*\"\npool = \"web\"\n");
    }
}

/// The directory, and what is tried where that is more than a site does by itself.
fn files_first(out: &mut String, files: &Files, last: Option<&str>) {
    let _ = writeln!(out, "root = {}", quoted(&files.root));
    let more: Vec<&str> = files.tries.iter().map(String::as_str).chain(last).collect();
    if more.is_empty() {
        return;
    }
    if last.is_none() && more.iter().any(|path| path.starts_with('/')) {
        out.push_str("# What is no file is a page of the program in the browser.\n");
    }
    let tries: Vec<String> =
        ["{path}", "{path}/"].iter().chain(&more).map(|path| (*path).to_owned()).collect();
    let _ = writeln!(out, "try = {}", array(&tries));
}

fn pool(out: &mut String, application: &Application, settings: &Settings) {
    match &application.kind {
        Kind::Files(_) => (),
        Kind::Command(command) => processes(out, application, command, settings),
        Kind::Server { url, start } => {
            let _ = writeln!(
                out,
                "\n# A server of its own, which listens by itself. Start it with: {}\n[pool.web]\nconnect = {}",
                one_line(start),
                quoted(url)
            );
        }
        Kind::Php { root, socket } => {
            let url = format!("fastcgi+unix:{}", socket.display());
            out.push_str(
                "\n# php-fpm, which has to be running; this account has to be allowed to open its socket.\n",
            );
            let _ = writeln!(out, "[pool.web]\nconnect = {}\nroot = {}", quoted(&url), quoted(root));
            out.push_str("php = true   # files are served, scripts run, and index.php has all other paths\n");
        }
    }
}

fn processes(out: &mut String, application: &Application, command: &[String], settings: &Settings) {
    out.push_str(
        "\n# Processes that the server starts, as many as requests need, unless `workers` is a number.\n",
    );
    let _ = writeln!(out, "[pool.web]\ncommand = {}", array(command));
    if let Some(cwd) = &application.cwd {
        let _ = writeln!(out, "cwd = {}", quoted(cwd));
    }
    match settings.workers {
        Some(workers) => {
            let _ = writeln!(out, "workers = {workers}");
        }
        None if settings.one_line && settings.domains.is_empty() => out.push_str("workers = { start = 1 }\n"),
        None => {}
    }
    if settings.one_line {
        out.push_str("queue = { timeout = \"30s\" }   # the first requests wait as long as the application may take to start\n");
    }
    if !application.env.is_empty() {
        let pairs =
            application.env.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)));
        let _ = writeln!(out, "env = {{ {} }}", pairs.collect::<Vec<_>>().join(", "));
    }
    if settings.one_line {
        out.push_str("# What this command was given is meant for the application.\nenv_inherit = [\"*\"]\n");
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn array(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// Text for a comment: a name of a file may hold a line end.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
