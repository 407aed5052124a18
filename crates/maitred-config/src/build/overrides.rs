//! `limits`, `access_log`, `server_header`, `request_buffering`, `grpc_web`, `mirror`, `delay` of sites and
//! routes.

use std::time::Duration;

use super::super::finding::Span;
use super::super::meaning::{Limits, Pool, Source};
use super::super::overrides::{Buffering, LimitOverrides, LogChoice, Overrides};
use super::super::reader::{Section, shorten};
use super::super::response_buffering::ResponseBuffering;
use super::super::suggest::nearest;
use super::super::values::{show_bytes, show_duration};
use super::common::{given_time, not_above};
use super::mirror;
use super::pools::Known;

pub(super) fn of(section: &Section<'_>, pools: &Known<'_>) -> Overrides {
    let server_header = section.given("server_header").map(|_| section.flag("server_header"));
    let request_buffering = buffering(section);
    Overrides {
        limits: limits(&section.section("limits")),
        access_log: access_log(section),
        server_header,
        request_buffering,
        response_buffering: response_buffering(section),
        grpc_web: section.given("grpc_web").map(|_| section.flag("grpc_web")),
        mirror: mirror::of(section, pools),
        delay: given_time(section, "delay"),
    }
}

fn response_buffering(section: &Section<'_>) -> Option<ResponseBuffering> {
    if !section.is_table("response_buffering") {
        return section.choice("response_buffering").map(|_| ResponseBuffering::OFF);
    }
    let table = section.section("response_buffering");
    Some(ResponseBuffering { memory: table.number("memory").value, disk: table.number("disk").value })
}

fn buffering(section: &Section<'_>) -> Option<Buffering> {
    section.choice("request_buffering").map(|word| match word {
        "on" => Buffering::On,
        "off" => Buffering::Off,
        _ => Buffering::Auto,
    })
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
        keep_alive_timeout: given_time(section, "keep_alive_timeout"),
        request_timeout: given_time(section, "request_timeout"),
        request_total_timeout: given_time(section, "request_total_timeout"),
        response_bytes_per_second_max: size("response_bytes_per_second_max"),
        response_burst_bytes: size("response_burst_bytes"),
    }
}

/// Checks `limits` of sites and routes against those of the server that bound them.
pub(super) fn check(root: &Section<'_>, of_server: &Section<'_>, limits: &Limits, pools: &[Pool]) {
    let bodies = (limits.body_bytes_max, limits.bodies_disk_bytes_max);
    let streams = root.sections("site").iter().any(|site| site_passes(site, pools));
    if !streams {
        not_above(of_server, ("body_bytes_max", bodies.0), ("bodies_disk_bytes_max", bodies.1));
    }
    for site in root.sections("site") {
        let routes = site.sections("route");
        for section in std::iter::once(&site).chain(&routes) {
            let own = section.section("limits");
            let passes = match std::ptr::eq(section, &site) {
                true => site_passes(&site, pools),
                false => route_passes(section, &site, pools),
            };
            sizes(&own, of_server, limits, passes);
            times(&own, limits);
        }
        routes.iter().for_each(|route| translates(route, pools));
    }
}

/// Whether a body to something of a site may go on while it comes.
fn site_passes(site: &Section<'_>, pools: &[Pool]) -> bool {
    buffering(site) == Some(Buffering::Off)
        || site.sections("route").iter().any(|route| route_passes(route, site, pools))
}

/// Whether a body to a route may go on while it comes, so that it needs no room here: with `auto` that is one to HTTP servers
/// whose length is announced.
fn route_passes(route: &Section<'_>, site: &Section<'_>, pools: &[Pool]) -> bool {
    match buffering(route).or(buffering(site)).unwrap_or_default() {
        Buffering::Off => true,
        Buffering::On => false,
        Buffering::Auto => {
            let name = route.text("pool");
            let pool = name.and_then(|name| pools.iter().find(|pool| pool.name == name.value));
            pool.is_some_and(|pool| matches!(pool.source, Source::Http(_)))
        }
    }
}

/// `grpc_web` of a route to a pool that cannot have calls of gRPC.
fn translates(section: &Section<'_>, pools: &[Pool]) {
    let Some(span) = section.given("grpc_web").filter(|_| section.flag("grpc_web")) else { return };
    let Some(name) = section.text("pool") else { return };
    if pools.iter().any(|pool| pool.name == name.value && !pool.http2) {
        let message = format!("`grpc_web`: the pool \"{}\" does not speak HTTP/2", shorten(&name.value));
        let hint = "gRPC needs HTTP/2: `connect = \"h2://…\"`, or `tls = { http2 = true }` with `https://`";
        section.cx.error_with(&span, message, hint);
    }
}

/// Sizes that the server has no room for, or that a smaller one makes void, are errors: what is written cannot be had.
fn sizes(own: &Section<'_>, of_server: &Section<'_>, limits: &Limits, passes: bool) {
    let given = |name| own.given(name).map(|span| (span, own.number::<u64>(name).value));
    let above = |name: &str, span: &Span, bound: &str, most: u64| {
        let message = format!("`{name}` is above `{bound}` of [limits]");
        match of_server.given(bound) {
            Some(other) => own.cx.conflict(span, message, &format!("`{bound}` is set here"), &other),
            None => own.cx.error_with(
                span,
                message,
                format!("raise `{bound}` in [limits]; it is {}", show_bytes(most)),
            ),
        }
    };
    if let Some((span, _)) =
        given("body_bytes_max").filter(|(_, value)| !passes && *value > limits.bodies_disk_bytes_max)
    {
        above("body_bytes_max", &span, "bodies_disk_bytes_max", limits.bodies_disk_bytes_max);
    }
    let Some((span, value)) = given("body_memory_bytes_max") else { return };
    if value > limits.bodies_memory_bytes_max {
        above("body_memory_bytes_max", &span, "bodies_memory_bytes_max", limits.bodies_memory_bytes_max);
    }
    let inline = u64::from(limits.body_inline_bytes_max);
    if value < inline {
        let message = "`body_memory_bytes_max` is below `body_inline_bytes_max` of [limits]";
        let hint = format!(
            "bodies up to {} are in memory in any case; `body_inline_bytes_max` is for all sites",
            show_bytes(inline)
        );
        own.cx.error_with(&span, message, hint);
    }
}

/// Times that a shorter one always forestalls are warnings: nothing is wrong about the requests.
fn times(own: &Section<'_>, limits: &Limits) {
    let without_effect = |name: &str, bound: &str, most: Option<Duration>| {
        let (Some(span), Some(time), Some(most)) = (own.given(name), given_time(own, name), most) else {
            return;
        };
        if time > most {
            let message = format!("`{name}` is longer than {bound}, and has no effect");
            let hint = format!("{bound} is {}, and ends the request before", show_duration(most));
            own.cx.warn(&span, message, hint);
        }
    };
    without_effect("body_timeout", "`request_total_timeout` of [limits]", limits.request_total_timeout);
    for name in ["write_timeout", "request_timeout", "request_total_timeout"] {
        without_effect(name, "`response_total_timeout` of [limits]", limits.response_total_timeout);
    }
    without_effect("request_timeout", "`request_total_timeout`", given_time(own, "request_total_timeout"));
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
