//! `CustomLog`, `TransferLog`, `LogFormat`: logs of sites.

use super::context::Cx;
use super::tree::Directive;
use crate::model::Block;
use crate::report::Kind;

const COMBINED: &str = r#"%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;

/// The log of a server, by its name.
pub(crate) fn of(cx: &Cx<'_>, all: &[&Directive]) -> Option<String> {
    let given: Vec<&Directive> =
        all.iter().copied().filter(|one| one.is(&["customlog", "transferlog", "globallog"])).collect();
    let (last, others) = given.split_last()?;
    for other in others {
        cx.say(*other, Kind::Choice, "a request is in one log, that of the last `CustomLog`");
    }
    let target = last.arg(0);
    if target.starts_with('|') {
        cx.say(
            *last,
            Kind::Choice,
            "lines go to standard output: Maitred starts no program for its log (docs/logs.md)",
        );
        return None;
    }
    let conditioned =
        last.args.iter().skip(2).any(|word| word.starts_with("env=") || word.starts_with("expr="));
    let why = if conditioned {
        "all requests are in the log: `access_log = false` of a route has none"
    } else {
        ""
    };
    let kind = if conditioned { Kind::Choice } else { Kind::Translated };
    let (format, known) = format(cx, all, last);
    let mut block = Block::new("").from(&last.place, &last.shown);
    let to = match target {
        "/dev/stdout" | "/proc/self/fd/1" | "/dev/stderr" | "/proc/self/fd/2" => "stdout".to_owned(),
        _ if target.starts_with("syslog") => "syslog".to_owned(),
        path => cx.loader.absolute(path),
    };
    if to == "/dev/null" {
        cx.say(*last, Kind::Choice, "`access_log = false` in the site writes no lines for it");
        return None;
    }
    let directory = to.starts_with('/').then(|| to.rsplit_once('/').map_or("", |(directory, _)| directory));
    match directory {
        Some(directory) if !cx.shared.machine.has_directory(directory) => {
            let why = "but its directory is not there on this machine: see the comment there";
            cx.say(*last, Kind::Translated, why);
            block.push_off("to", to.as_str(), Some(&last.place), "its directory is there on this machine");
            block.push("to", "stdout", None);
        }
        _ => block.push("to", to.as_str(), Some(&last.place)),
    }
    if format != "combined" {
        block.push("format", format, None);
    }
    match known {
        true => cx.say(*last, kind, why),
        false => cx.say(
            *last,
            Kind::Choice,
            "lines have Maitred's own fields where there is no placeholder (docs/logs.md)",
        ),
    }
    let name = to.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or("access").to_owned();
    Some(cx.shared.log(&name, block))
}

/// The format of a log, and whether all of it is there.
fn format(cx: &Cx<'_>, all: &[&Directive], log: &Directive) -> (String, bool) {
    let given =
        log.args.get(1).map(String::as_str).filter(|word| !word.starts_with("env=")).unwrap_or("common");
    let named = all
        .iter()
        .copied()
        .rfind(|one| one.name == "logformat" && one.args.get(1).is_some_and(|name| name == given));
    if let Some(named) = named {
        cx.translated(named);
    }
    let text = match (named, given) {
        (Some(named), _) => named.arg(0),
        (None, "combined") => COMBINED,
        (None, "common") => r#"%h %l %u %t "%r" %>s %O"#,
        (None, "vhost_combined") => r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#,
        (None, other) => other,
    };
    if [COMBINED, &COMBINED.replace("%O", "%b")].contains(&text) {
        return ("combined".to_owned(), true);
    }
    let mut out = String::new();
    let mut known = true;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(&maitred_config::Template::escape(before));
        let after = after.trim_start_matches(['>', '<']);
        let (name, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((field, behind)) => {
                let kind = behind.chars().next().unwrap_or(' ');
                let behind = behind.get(kind.len_utf8()..).unwrap_or_default();
                (if kind == 'i' { field_of(field) } else { None }, behind)
            }
            None => {
                let letter = after.chars().next().unwrap_or(' ');
                (placeholder(letter).map(str::to_owned), after.get(letter.len_utf8()..).unwrap_or_default())
            }
        };
        known &= name.is_some();
        out.push_str(&name.unwrap_or_else(|| "-".to_owned()));
        rest = behind;
    }
    out.push_str(&maitred_config::Template::escape(rest));
    (out, known)
}

fn field_of(name: &str) -> Option<String> {
    match name.to_ascii_lowercase().as_str() {
        "referer" => Some("{referer}".into()),
        "user-agent" => Some("{user_agent}".into()),
        _ if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
            Some(format!("{{header.{name}}}"))
        }
        _ => None,
    }
}

fn placeholder(letter: char) -> Option<&'static str> {
    Some(match letter {
        'h' | 'a' => "{remote}",
        'l' => "-",
        'u' => "{user}",
        't' => "[{time}]",
        'r' => "{request}",
        's' => "{status}",
        'b' | 'O' | 'B' => "{body_bytes}",
        'v' | 'V' => "{host}",
        'D' | 'T' => "{duration}",
        'm' => "{method}",
        '%' => "%",
        _ => return None,
    })
}
