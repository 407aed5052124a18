//! `limits`, `access_log`, `server_header` of sites and routes.

use super::super::overrides::{LimitOverrides, LogChoice, Overrides};
use super::super::reader::{Section, shorten};
use super::super::suggest::nearest;
use super::common::given_time;

pub(super) fn of(section: &Section<'_>) -> Overrides {
    let server_header = section.given("server_header").map(|_| section.flag("server_header"));
    Overrides { limits: limits(&section.section("limits")), access_log: access_log(section), server_header }
}

fn limits(section: &Section<'_>) -> LimitOverrides {
    let size = |name| section.given(name).map(|_| section.number(name).value);
    LimitOverrides {
        body_bytes_max: size("body_bytes_max"),
        body_memory_bytes_max: size("body_memory_bytes_max"),
        body_timeout: given_time(section, "body_timeout"),
        body_bytes_per_second_min: section
            .given("body_bytes_per_second_min")
            .map(|_| section.number("body_bytes_per_second_min").value),
        write_timeout: given_time(section, "write_timeout"),
        request_timeout: given_time(section, "request_timeout"),
        request_total_timeout: given_time(section, "request_total_timeout"),
    }
}

fn access_log(section: &Section<'_>) -> Option<LogChoice> {
    let name = match section.flag_or_text("access_log")? {
        Ok(true) => return Some(LogChoice::Main),
        Ok(false) => return Some(LogChoice::Off),
        Err(name) => name,
    };
    let known = section.cx.access_logs.borrow();
    let at = known.iter().position(|known| *known == name.value);
    if at.is_none() {
        let hint = match nearest(&name.value, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean \"{}\"?", shorten(meant)),
            None => format!("add [access_log.{}] with `to`", shorten(&name.value)),
        };
        let message = format!("there is no access log \"{}\"", shorten(&name.value));
        section.cx.error_with(&name.span, message, hint);
    }
    at.and_then(|at| u8::try_from(at).ok()).map(LogChoice::Named)
}
