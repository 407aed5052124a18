//! `access_log` and `log_format`: `[log]`, and logs of sites and routes.

use super::context::Context;
use crate::drafts::Route;
use crate::model::Block;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};
use crate::report::Kind;

/// The log of the requests in a scope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Log {
    /// The log of the whole server.
    Default,
    /// None.
    Off,
    /// A log with a name.
    Named(String),
}

/// What `access_log` says of a scope.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Log {
    let all = scope.all("access_log");
    let Some((first, others)) = all.split_first() else { return Log::Default };
    for other in others {
        cx.say(other, Kind::Choice, "a request is in one log, that of the first `access_log`");
    }
    if is_off(first) {
        cx.translated(first);
        // Of all sites, `[log]` says it.
        return if scope.outermost("access_log") { Log::Default } else { Log::Off };
    }
    let format = format(cx, scope, first);
    if scope.outermost("access_log") && format.is_known() {
        return Log::Default;
    }
    match table(cx, first, &format) {
        Some(name) => Log::Named(name),
        None => Log::Default,
    }
}

/// What is written there is gone.
fn is_off(directive: &Directive) -> bool {
    ["off", "/dev/null"].contains(&directive.arg(0))
}

/// What a scope's `access_log` says, for a route in it.
pub(crate) fn decorate(cx: &Context<'_>, scope: &Scope<'_>, route: &mut Route) {
    match of(cx, scope) {
        Log::Default => {}
        Log::Off => route.quiet = true,
        Log::Named(name) => route.log = Some(name),
    }
}

/// `[log]`, from what stands in `http { … }`.
pub(crate) fn table_of_all(cx: &Context<'_>, scope: &Scope<'_>) -> Block {
    let mut block = Block::new("[log]");
    let Some(directive) = scope.last("access_log") else { return block };
    if is_off(directive) {
        cx.translated(directive);
        block.push("access", "off", Some(&directive.place));
        return block;
    }
    let format = format(cx, scope, directive);
    if let (Format::Json, true) = (&format, format.is_known()) {
        block.push("access", "json", Some(&directive.place));
    }
    if !format.is_known() {
        return block;
    }
    match target(cx, directive) {
        Some(Target::File(file)) if has_directory(cx, &file) => {
            cx.translated(directive);
            block.push("access_file", file, Some(&directive.place));
        }
        Some(Target::File(file)) => {
            cx.say(directive, Kind::Translated, "as a comment: its directory is not there on this machine");
            block.push_off("access_file", file, Some(&directive.place), "its directory is there on this machine");
        }
        Some(Target::Other(to)) if to == "stdout" => cx.not_needed(directive, "this is the default"),
        Some(Target::Other(_)) => cx.say(
            directive,
            Kind::Choice,
            "the log of the whole server is a file or standard output; `[access_log.NAME]` goes to syslog, too",
        ),
        None => {}
    }
    block
}

/// What a line looks like.
#[derive(Debug, Clone, PartialEq)]
enum Format {
    Combined,
    Json,
    Text(String),
}

impl Format {
    /// Whether `[log]` has it.
    fn is_known(&self) -> bool {
        !matches!(self, Format::Text(_))
    }
}

/// Where lines go.
enum Target {
    File(String),
    Other(String),
}

fn target(cx: &Context<'_>, directive: &Directive) -> Option<Target> {
    let to = directive.arg(0);
    if let Some(options) = to.strip_prefix("syslog:") {
        let server = options.split(',').find_map(|option| option.strip_prefix("server=")).unwrap_or_default();
        if let Some(socket) = server.strip_prefix("unix:") {
            return Some(Target::Other(match socket {
                "/dev/log" => "syslog".to_owned(),
                socket => format!("syslog:{socket}"),
            }));
        }
        let with_port = match server.parse::<std::net::IpAddr>() {
            Ok(address) => std::net::SocketAddr::new(address, 514).to_string(),
            Err(_) => server.to_owned(),
        };
        if with_port.parse::<std::net::SocketAddr>().is_err() {
            cx.say(directive, Kind::Choice, "a syslog server is an address and a port here");
            return None;
        }
        return Some(Target::Other(format!("syslog://{with_port}")));
    }
    match to {
        "/dev/stdout" | "/dev/stderr" | "stderr" => Some(Target::Other("stdout".into())),
        file if file.contains('$') => {
            cx.say(
                directive,
                Kind::Choice,
                "the name of a log is fixed; `{host}` in its format tells sites apart",
            );
            None
        }
        file => Some(Target::File(super::context::absolute(file))),
    }
}

fn has_directory(cx: &Context<'_>, file: &str) -> bool {
    file.rsplit_once('/').is_some_and(|(directory, _)| cx.machine.has_directory(directory))
}

/// The log with a name, for these lines.
fn table(cx: &Context<'_>, directive: &Directive, format: &Format) -> Option<String> {
    let mut block = Block::new("").from(&directive.place, &directive.shown());
    let wanted = match target(cx, directive)? {
        Target::File(file) => {
            let name = file.rsplit('/').next().unwrap_or_default();
            let name = name.split('.').next().unwrap_or_default().to_owned();
            if has_directory(cx, &file) {
                block.push("to", file, None);
            } else {
                cx.say(
                    directive,
                    Kind::Translated,
                    "but its directory is not there on this machine: see the comment there",
                );
                block.push_off("to", file, None, "its directory is there on this machine");
                block.push("to", "stdout", None);
            }
            name
        }
        Target::Other(to) => {
            let name = to.split(':').next().unwrap_or_default().to_owned();
            block.push("to", to, None);
            name
        }
    };
    match format {
        Format::Combined => {}
        Format::Json => block.push("format", "json", None),
        Format::Text(text) => block.push("format", text.as_str(), None),
    }
    if let Some(condition) = directive.args.iter().find(|arg| arg.starts_with("if=")) {
        let why = format!(
            "without `{condition}`: each request of a route is logged, or none (`access_log = false`)"
        );
        cx.say(directive, Kind::Translated, why);
    }
    cx.translated(directive);
    Some(cx.log(&wanted, block))
}

fn format(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Format {
    let name = directive.arg(1);
    if name.is_empty() || name == "combined" || name.contains('=') {
        return Format::Combined;
    }
    let formats = scope.everywhere("log_format");
    let Some(given) = formats.into_iter().find(|format| format.arg(0) == name) else {
        return Format::Combined;
    };
    let texts = given.args.iter().skip(1).filter(|arg| !arg.starts_with("escape="));
    let text: String = texts.map(String::as_str).collect();
    if text.trim_start().starts_with('{') || given.args.iter().any(|arg| arg == "escape=json") {
        cx.say(given, Kind::Translated, "`json` has fields of its own");
        return Format::Json;
    }
    let (line, unknown) = line(&text);
    match unknown.as_slice() {
        [] => cx.translated(given),
        unknown => cx.say(given, Kind::Translated, format!("with `-` for {}", unknown.join(", "))),
    }
    match line.as_str() {
        COMBINED => Format::Combined,
        line if !line.contains('{') => Format::Combined,
        _ => Format::Text(line),
    }
}

/// The Combined Log Format.
const COMBINED: &str =
    r#"{remote} - {user} [{time}] "{request}" {status} {body_bytes} "{referer}" "{user_agent}""#;

/// Variables and the placeholders for them.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("remote_addr", "remote"),
    ("realip_remote_addr", "remote"),
    ("remote_user", "user"),
    ("time_local", "time"),
    ("time_iso8601", "time_iso"),
    ("request", "request"),
    ("request_method", "method"),
    ("request_uri", "target"),
    ("uri", "path"),
    ("document_uri", "path"),
    ("args", "query"),
    ("query_string", "query"),
    ("server_protocol", "version"),
    ("status", "status"),
    ("body_bytes_sent", "body_bytes"),
    ("bytes_sent", "body_bytes"),
    ("request_time", "duration"),
    ("host", "host"),
    ("http_host", "host"),
    ("server_name", "host"),
    ("http_referer", "referer"),
    ("http_user_agent", "user_agent"),
    ("request_id", "request_id"),
    ("upstream_addr", "pool"),
    ("proxy_host", "pool"),
];

/// A format, and the variables in it that are not known.
fn line(text: &str) -> (String, Vec<String>) {
    let (mut line, mut unknown) = (String::new(), Vec::new());
    for part in values::parts(text, &Scope::default()) {
        match part {
            Part::Text(text) => line.push_str(&text.replace(['{', '}'], "").replace(char::is_control, " ")),
            Part::Variable(name) => {
                let known = PLACEHOLDERS.iter().find(|(variable, _)| *variable == name);
                match (known, name.strip_prefix("http_")) {
                    (Some((_, placeholder)), _) => line.push_str(&format!("{{{placeholder}}}")),
                    (None, Some(field)) => {
                        line.push_str(&format!("{{header.{}}}", values::field_name(field)))
                    }
                    (None, None) => {
                        line.push('-');
                        unknown.push(format!("`${name}`"));
                    }
                }
            }
        }
    }
    (line, unknown)
}

/// The log of a site: what its server says.
pub(crate) fn of_site(cx: &Context<'_>, scope: &Scope<'_>) -> Option<String> {
    match of(cx, scope) {
        Log::Named(name) => Some(name),
        Log::Default | Log::Off => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_formats() {
        let combined = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#;
        assert_eq!(line(combined), (COMBINED.to_owned(), Vec::new()));
        let (text, unknown) = line("$host ${request_time}s $upstream_response_time $http_x_tenant");
        assert_eq!(text, "{host} {duration}s - {header.X-Tenant}");
        assert_eq!(unknown, ["`$upstream_response_time`"]);
    }
}
