//! `match` of a route.

use super::super::conditions::{ConditionSet, Conditions, ValuePattern};
use super::super::finding::At;
use super::super::reader::{Section, shorten};
use super::super::template;
use super::super::values::is_token;
use super::paths;

/// `match`
pub(super) fn of_route(route: &Section<'_>) -> Conditions {
    let section = route.section("match");
    let set = |section: &Section<'_>| {
        let found = ConditionSet { paths: paths::paths(section, "path"), ..set(section) };
        if found == ConditionSet::default() {
            section.cx.error_with(
                &section.span,
                "this table has no condition, so that it would hold for every request",
                "add one, or take the table out",
            );
        }
        found
    };
    Conditions {
        any: section.sections("any").iter().map(set).collect(),
        not: section.sections("not").iter().map(set).collect(),
        all: self::set(&section),
    }
}

fn set(section: &Section<'_>) -> ConditionSet {
    ConditionSet {
        paths: Vec::new(),
        headers: values(section, "header", |name| match is_token(name) {
            true => Ok(name.to_ascii_lowercase()),
            false => Err("a name has letters, digits and `-`"),
        }),
        query: values(section, "query", |name| Ok(name.to_owned())),
        cookies: values(section, "cookie", |name| match is_token(name) {
            true => Ok(name.to_owned()),
            false => Err("a name has letters, digits, `-` and `_`"),
        }),
        https: section.choice("scheme").map(|scheme| scheme == "https"),
        clients: super::networks(section, "client"),
    }
}

fn values(
    section: &Section<'_>,
    key: &'static str,
    name_of: impl Fn(&str) -> Result<String, &'static str>,
) -> Vec<(String, ValuePattern)> {
    let mut values = Vec::new();
    for (name, value) in section.map(key) {
        let what = format!("`{key}`: \"{}\" cannot be a name", shorten(&name.value));
        let name = section.cx.accept(&name.span, &what, name_of(&name.value).map_err(str::to_owned));
        let value = pattern(section, key, &value);
        if let (Some(name), Some(value)) = (name, value) {
            values.push((name, value));
        }
    }
    values
}

fn pattern(section: &Section<'_>, key: &str, text: &At<String>) -> Option<ValuePattern> {
    match text.value.strip_prefix('~') {
        Some(regex) => {
            let what = format!("`{key}`: \"{}\" is not a regular expression", shorten(regex));
            section.cx.accept(&text.span, &what, template::regex(regex))?;
            Some(ValuePattern::Regex(regex.to_owned()))
        }
        None => Some(ValuePattern::Glob(text.value.split('*').map(str::to_owned).collect())),
    }
}
