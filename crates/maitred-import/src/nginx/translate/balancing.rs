//! `proxy_next_upstream` and `health_check`: what is retried, and how servers are checked.

use super::context::Context;
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;
use crate::write;

/// Methods that nginx retries with `non_idempotent`.
const ALL_METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"];

/// `retry` and `health` of a pool. `dialect` is how the names of its directives begin.
pub(super) fn push(cx: &Context<'_>, scope: &Scope<'_>, dialect: &str, block: &mut Block) {
    let mut retry = Vec::new();
    if let Some(given) = scope.last(&format!("{dialect}_next_upstream")) {
        causes(given, &mut retry);
        cx.translated(given);
    }
    if let Some(given) = scope.last(&format!("{dialect}_next_upstream_tries"))
        && let Ok(tries) = given.arg(0).parse::<u64>()
    {
        retry.retain(|(key, _): &(String, Value)| key != "attempts");
        // 0 is any number.
        let tries = if tries == 0 { 16 } else { tries.min(16) };
        retry.push(("attempts".to_owned(), tries.into()));
        cx.translated(given);
    }
    if let Some(given) = scope.last(&format!("{dialect}_next_upstream_timeout"))
        && values::millis(given.arg(0)) != Some(0)
    {
        let why = "retries end with `attempts` and `budget_percent`; `request_total_timeout` bounds a whole request";
        cx.say(given, Kind::Choice, why);
    }
    if !retry.is_empty() {
        block.push("retry", Value::Table(retry), None);
    }
    if let Some(given) = scope.last("health_check") {
        match health(given) {
            Ok(table) => {
                block.push("health", Value::Table(table), Some(&given.place));
                cx.translated(given);
            }
            Err(why) => cx.not_possible(given, why),
        }
    }
}

/// `on` and `methods` for what `proxy_next_upstream` names.
fn causes(given: &Directive, retry: &mut Vec<(String, Value)>) {
    if given.args.iter().any(|arg| arg == "off") {
        return retry.push(("attempts".to_owned(), 1.into()));
    }
    let mut on: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        if !on.iter().any(|known| known == text) {
            on.push(text.to_owned());
        }
    };
    for arg in &given.args {
        match arg.strip_prefix("http_") {
            Some(status) => add(status),
            None if arg == "error" => ["unreachable", "broken"].into_iter().for_each(&mut add),
            None if arg == "timeout" => ["unreachable", "timeout"].into_iter().for_each(&mut add),
            None => {}
        }
    }
    let list = |all: Vec<String>| Value::List(all.into_iter().map(Value::from).collect());
    if on != ["unreachable", "broken"] {
        retry.push(("on".to_owned(), list(on)));
    }
    if given.args.iter().any(|arg| arg == "non_idempotent") {
        retry.push(("methods".to_owned(), list(ALL_METHODS.map(str::to_owned).to_vec())));
    }
}

/// `health` for `health_check`, whose defaults are others.
fn health(given: &Directive) -> Result<Vec<(String, Value)>, String> {
    let mut table: Vec<(String, Value)> = Vec::new();
    let (mut path, mut fails, mut passes) = ("/".to_owned(), 1, 1);
    for arg in &given.args {
        let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
        let number = || value.parse::<u64>().ok().map(|number| number.clamp(1, 100));
        match name {
            "uri" if value.starts_with('/') && !value.contains('$') => value.clone_into(&mut path),
            "fails" => fails = number().unwrap_or(fails),
            "passes" => passes = number().unwrap_or(passes),
            "interval" => {
                let millis = values::millis(value).ok_or("its interval is not a time")?;
                table.push(("interval".to_owned(), write::time(millis.clamp(100, 3_600_000)).into()));
            }
            "port" => {
                let port =
                    value.parse::<u16>().ok().filter(|port| *port > 0).ok_or("its port is no number")?;
                table.push(("port".to_owned(), u64::from(port).into()));
            }
            "type" if value == "grpc" => table.insert(0, ("kind".to_owned(), "grpc".into())),
            "grpc_service" => table.push(("service".to_owned(), value.into())),
            "jitter" | "mandatory" | "persistent" | "keepalive_time" => {}
            _ => return Err(format!("`{name}` has no counterpart in `health` of a pool")),
        }
    }
    if !table.iter().any(|(key, _)| key == "kind") {
        table.insert(0, ("path".to_owned(), path.into()));
    }
    table.push(("unhealthy_after".to_owned(), fails.into()));
    table.push(("healthy_after".to_owned(), passes.into()));
    Ok(table)
}
