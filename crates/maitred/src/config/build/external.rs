//! What only a pool of servers has.

use super::super::external::{External, HostRule};
use super::super::meaning::Source;
use super::super::reader::{Section, shorten};

/// Keys that are for servers of HTTP, and not for FastCGI.
const OF_HTTP: [&str; 1] = ["host"];

pub(super) fn of(section: &Section<'_>, source: &Source) -> External {
    if !matches!(source, Source::Http(_)) {
        for (key, span) in OF_HTTP.iter().filter_map(|key| Some((key, section.given(key)?))) {
            let why = "it is for a pool with `connect = \"http://…\"` or `\"https://…\"`";
            section.cx.warn(&span, format!("`{key}` has no effect"), why);
        }
    }
    let host = host(section);
    match source {
        Source::Http(_) => External { host },
        _ => External::default(),
    }
}

fn host(section: &Section<'_>) -> HostRule {
    let Some(text) = section.text("host") else { return HostRule::Client };
    match text.value.as_str() {
        "client" => HostRule::Client,
        "server" => HostRule::Server,
        host => {
            if !HostRule::is_host(host) {
                let message = format!("`host`: \"{}\" is not the name of a host", shorten(host));
                let hint = "it takes \"client\", \"server\", or a host such as \"app.internal:8080\"";
                section.cx.error_with(&text.span, message, hint);
            }
            HostRule::Named(text.value)
        }
    }
}
