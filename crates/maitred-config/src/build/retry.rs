//! `retry` of a pool.

use super::super::reader::{Section, shorten};
use super::super::retry::Retry;
use super::super::values::is_token;

/// `retry`
pub(super) fn of(section: &Section<'_>) -> Retry {
    let table = section.section("retry");
    let mut retry = Retry { unreachable: false, broken: false, ..Retry::default() };
    for text in table.texts("on") {
        match (text.value.as_str(), text.value.parse::<u16>()) {
            ("unreachable", _) => retry.unreachable = true,
            ("broken", _) => retry.broken = true,
            ("timeout", _) => retry.timeout = true,
            (_, Ok(status @ 400..=599)) => retry.statuses.push(status),
            (other, _) => {
                let message = format!("`on` does not take \"{}\"", shorten(other));
                let hint = "it takes \"unreachable\", \"broken\", \"timeout\", and statuses such as \"503\"";
                table.cx.error_with(&text.span, message, hint);
            }
        }
    }
    let methods = table.texts("methods");
    for method in &methods {
        let known = is_token(&method.value) && !method.value.bytes().any(|byte| byte.is_ascii_lowercase());
        if !known {
            let message = format!("`methods`: \"{}\" is not a method", shorten(&method.value));
            table.cx.error_with(&method.span, message, "it takes names such as \"PUT\"");
        }
    }
    retry.methods = methods.into_iter().map(|method| method.value).collect();
    retry.attempts = table.number("attempts").value;
    retry.budget_percent = table.number("budget_percent").value;
    retry.per_try_timeout = super::given_time(&table, "per_try_timeout");
    retry
}
