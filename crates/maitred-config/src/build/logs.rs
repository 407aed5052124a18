//! `[log]` and `[access_log.NAME]`

use super::super::finding::At;
use super::super::logs::{
    ACCESS_LOGS_MAX, AccessFormat, AccessLog, JSON_MEMBERS, Log, LogFormat, LogPart, LogTarget, PARTS_MAX,
    parts,
};
use super::super::reader::{Section, shorten};
use super::super::suggest::nearest;
use super::common::path;

/// Where local daemons take what syslog(3) sends.
const SYSLOG: &str = "/dev/log";

/// `[log]`
pub(super) fn log(section: &Section<'_>) -> Log {
    let access = section.choice("access").and_then(known_format).unwrap_or(AccessFormat::Combined);
    let access_file = path(section, "access_file");
    if let (AccessFormat::Off, Some(span)) = (access, section.given("access_file")) {
        section.cx.warn(&span, "`access_file` has no effect", "`access = \"off\"` writes no access log");
    }
    Log { access, access_file, error_file: path(section, "error_file"), level: level(section) }
}

/// A filter of `tracing`. A single word has to be a level: the filter itself would take a misspelt one for a module.
fn level(section: &Section<'_>) -> String {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let Some(text) = section.text("level") else { return "info".into() };
    for directive in text.value.split(',').map(str::trim) {
        let plain = !directive.contains(['=', ':', '[']);
        if plain && !LEVELS.contains(&directive.to_ascii_lowercase().as_str()) {
            let hint = match nearest(directive, LEVELS) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => format!("the levels are {}", LEVELS.join(", ")),
            };
            let message = format!("`level`: \"{}\" is not a level", shorten(directive));
            section.cx.error_with(&text.span, message, hint);
            return text.value;
        }
    }
    let parsed =
        tracing_subscriber::EnvFilter::builder().parse(&text.value).map_err(|error| error.to_string());
    section.cx.accept(&text.span, "`level` is not a filter", parsed);
    text.value
}

fn known_format(word: &str) -> Option<AccessFormat> {
    Some(match word {
        "combined" => AccessFormat::Combined,
        "json" => AccessFormat::Json,
        "human" => AccessFormat::Human,
        "off" => AccessFormat::Off,
        _ => return None,
    })
}

/// `[access_log.NAME]`, whose names sites and routes can refer to from here on.
pub(super) fn access_logs(root: &Section<'_>) -> Vec<AccessLog> {
    let named = root.named("access_log");
    if let Some((name, _)) = named.get(ACCESS_LOGS_MAX) {
        root.cx.error_with(
            &name.span,
            format!("there are more than {ACCESS_LOGS_MAX} access logs"),
            "each has a thread of its own; sites can share one, and `{host}` tells them apart",
        );
    }
    let logs: Vec<AccessLog> = named.iter().map(|(name, section)| access_log(name, section)).collect();
    root.cx.access_logs.replace(logs.iter().map(|log| log.name.clone()).collect());
    logs
}

fn access_log(name: &At<String>, section: &Section<'_>) -> AccessLog {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.value.is_empty() || !name.value.bytes().all(usable) {
        let message = format!("\"{}\" cannot be the name of an access log", shorten(&name.value));
        section.cx.error_with(&name.span, message, "a name has letters, digits, `-` and `_`");
    }
    AccessLog {
        name: name.value.clone(),
        to: target(section).unwrap_or(LogTarget::Stdout),
        format: format_of(section),
        sample: section.number("sample").value,
    }
}

fn target(section: &Section<'_>) -> Option<LogTarget> {
    let to = section.text("to")?;
    Some(match to.value.as_str() {
        "stdout" => LogTarget::Stdout,
        "journald" => LogTarget::Journald,
        "syslog" => LogTarget::SyslogSocket(SYSLOG.into()),
        text => match (text.strip_prefix("syslog://"), text.strip_prefix("syslog:")) {
            (Some(address), _) => {
                let parsed = address
                    .parse()
                    .map_err(|_| "it is an IP address with a port, such as 192.0.2.1:514".to_owned());
                let what = format!("`to`: \"{}\" is not the address of a syslog server", shorten(text));
                LogTarget::SyslogUdp(section.cx.accept(&to.span, &what, parsed)?)
            }
            (None, Some(socket)) => {
                if !socket.starts_with('/') {
                    let message = format!("`to`: \"{}\" is not the path of a socket", shorten(socket));
                    section.cx.error_with(&to.span, message, "it is absolute, as in \"syslog:/dev/log\"");
                }
                LogTarget::SyslogSocket(socket.into())
            }
            (None, None) => LogTarget::File(path(section, "to")?),
        },
    })
}

fn format_of(section: &Section<'_>) -> LogFormat {
    let fields = section.map("fields");
    let format = section.text("format");
    let text = format.as_ref().map_or("combined", |format| format.value.as_str());
    let known = known_format(text);
    if let (true, Some(span)) = (known != Some(AccessFormat::Json), section.key_span("fields")) {
        section.cx.error_with(&span, "`fields` are members of JSON objects", "write `format = \"json\"`");
    }
    match (known, &format) {
        (Some(AccessFormat::Off), Some(format)) => {
            section.cx.error_with(
                &format.span,
                "`format`: a log that is off cannot be named",
                "`access_log = false` in a site or a route writes no lines for it",
            );
            LogFormat::Known(AccessFormat::Off)
        }
        (Some(AccessFormat::Json), _) if !fields.is_empty() => LogFormat::Json(json_fields(section, &fields)),
        (Some(known), _) => LogFormat::Known(known),
        (None, Some(format)) => {
            if !format.value.contains('{') {
                let hint = match nearest(&format.value, ["combined", "json", "human"]) {
                    Some(meant) => format!("did you mean \"{meant}\"?"),
                    None => "a text of your own has placeholders, such as {remote}".into(),
                };
                let message = format!("`format`: \"{}\" is not a format", shorten(&format.value));
                section.cx.error_with(&format.span, message, hint);
            }
            let what = format!("`format`: \"{}\" cannot be a line", shorten(&format.value));
            LogFormat::Text(section.cx.accept(&format.span, &what, parts(&format.value)).unwrap_or_default())
        }
        (None, None) => LogFormat::Known(AccessFormat::Combined),
    }
}

/// The further members of a JSON object; their names cannot be those that are always there.
fn json_fields(section: &Section<'_>, fields: &[(At<String>, At<String>)]) -> Vec<(String, Vec<LogPart>)> {
    if let (true, Some((name, _))) = (fields.len() > PARTS_MAX, fields.last()) {
        section.cx.error(&name.span, format!("`fields` has more than {PARTS_MAX} members"));
    }
    let member = |(name, text): &(At<String>, At<String>)| {
        if JSON_MEMBERS.contains(&name.value.as_str()) {
            let message = format!("`fields`: each line has a member \"{}\" already", shorten(&name.value));
            section.cx.error_with(&name.span, message, "take another name");
        }
        let what = format!("`fields`: \"{}\" cannot be a value", shorten(&text.value));
        Some((name.value.clone(), section.cx.accept(&text.span, &what, parts(&text.value))?))
    };
    fields.iter().filter_map(member).collect()
}
