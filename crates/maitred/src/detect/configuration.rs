//! The configuration of an application, as text.

use std::fmt::Write as _;

use super::{Application, Kind};

/// What the text says besides the application.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The address, without `domains`.
    pub listen: String,
    /// Names that get automatic certificates.
    pub domains: Vec<String>,
    /// Processes of the pool.
    pub workers: Option<u16>,
    /// Account of the application's processes.
    pub user: Option<String>,
}

/// The whole text.
pub fn text(application: &Application, settings: &Settings) -> String {
    let mut out =
        format!("# {}, found by {}.\n\n", one_line(application.name), one_line(&application.because));
    if settings.user.is_none() {
        out.push_str("[server]\n# All processes run as the account that starts the server. For production: `user` of the pool.\n");
        out.push_str("share_user = true\n\n");
    }
    listeners(&mut out, settings);
    site(&mut out, application, settings);
    pool(&mut out, application, settings);
    out
}

fn listeners(out: &mut String, settings: &Settings) {
    if settings.domains.is_empty() {
        let _ = writeln!(out, "[[listen]]\naddress = {}\n", quoted(&settings.listen));
        return;
    }
    out.push_str("[acme]\nagree = true   # to the terms of service of the certificate authority\n\n");
    out.push_str("[[listen]]\naddress = \":80\"\nredirect_http = true\n\n");
    out.push_str("[[listen]]\naddress = \":443\"\ntls = {}\n\n");
}

fn site(out: &mut String, application: &Application, settings: &Settings) {
    out.push_str("[[site]]\n");
    if !settings.domains.is_empty() {
        let _ = writeln!(out, "hosts = {}\nacme = true", array(&settings.domains));
    }
    if let Kind::Files(root) = &application.kind {
        let _ = writeln!(out, "root = {}", quoted(root));
        return;
    }
    for (path, root) in &application.assets {
        out.push_str("\n# Files are served without the application.\n[[site.route]]\n");
        let _ = writeln!(out, "path = {}\nroot = {}", quoted(&format!("{path}*")), quoted(root));
        let _ = writeln!(out, "strip_prefix = {}", quoted(path));
    }
    out.push_str("\n[[site.route]]\npath = \"/*\"\npool = \"web\"\n");
}

fn pool(out: &mut String, application: &Application, settings: &Settings) {
    match &application.kind {
        Kind::Files(_) => (),
        Kind::Command(command) => {
            let _ = writeln!(out, "\n[pool.web]\ncommand = {}", array(command));
            if let Some(workers) = settings.workers {
                let _ = writeln!(out, "workers = {workers}");
            }
            if let Some(user) = &settings.user {
                let _ = writeln!(out, "user = {}", quoted(user));
            }
        }
        Kind::Server { url, start } => {
            let _ = writeln!(
                out,
                "\n# Start it with: {}\n[pool.web]\nconnect = {}",
                one_line(start),
                quoted(url)
            );
        }
        Kind::Php { root, socket } => {
            let url = format!("fastcgi+unix:{}", socket.display());
            let _ = writeln!(out, "\n[pool.web]\nconnect = {}\nroot = {}", quoted(&url), quoted(root));
            out.push_str("php = true   # files are served, scripts run, and index.php has all other paths\n");
        }
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
