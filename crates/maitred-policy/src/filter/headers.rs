//! `response_headers`: fields that the operator sets, adds, removes, or fills in, on a site and on a route.

use super::scope::{Compiled, Scope};
use maitred_config::ResponseHeaders;

/// A route's rules come behind those of its site: they take precedence.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_site = scope.site.map(|site| &site.response_headers);
    let of_route = scope.route.map(|route| &route.response_headers);
    for rules in [of_site, of_route].into_iter().flatten() {
        apply(rules, compiled);
    }
}

fn apply(rules: &ResponseHeaders, compiled: &mut Compiled) {
    compiled.needs_response |= *rules != ResponseHeaders::default();
    let edits = &mut compiled.always;
    rules.remove.iter().for_each(|name| edits.remove(name));
    rules.set.iter().for_each(|(name, value)| edits.set(name, value.as_bytes()));
    rules.add.iter().for_each(|(name, value)| edits.add(name, value.as_bytes()));
    rules.if_absent.iter().for_each(|(name, value)| edits.add_if_absent(name, value.as_bytes()));
}

#[cfg(test)]
mod tests {
    use maitred_http::fields::FieldLines;

    use super::*;

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_route_has_the_last_word() {
        let site = ResponseHeaders {
            set: pairs(&[("X-A", "site"), ("X-B", "site")]),
            if_absent: pairs(&[("X-C", "site")]),
            ..ResponseHeaders::default()
        };
        let route = ResponseHeaders {
            set: pairs(&[("x-a", "route")]),
            add: pairs(&[("X-B", "route")]),
            remove: vec!["x-c".to_owned()],
            ..ResponseHeaders::default()
        };
        let mut compiled = Compiled::default();
        apply(&ResponseHeaders::default(), &mut compiled);
        assert!(!compiled.needs_response, "nothing is changed");
        apply(&site, &mut compiled);
        apply(&route, &mut compiled);
        assert!(compiled.needs_response);
        let (mut given, mut out) = (FieldLines::default(), FieldLines::default());
        [("x-b", "application"), ("x-c", "application")]
            .iter()
            .for_each(|(name, value)| given.push(name.as_bytes(), value.as_bytes()));
        compiled.always.apply(given.all(), &mut out);
        let text: String = out
            .all()
            .iter()
            .map(|(name, value)| format!("{} {};", name.escape_ascii(), value.escape_ascii()))
            .collect();
        assert_eq!(text, "X-B site;x-a route;X-B route;");
    }
}
