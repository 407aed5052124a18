//! `response_headers`: fields that the operator sets, adds, removes, or fills in, on a site and on a route.

use super::scope::{Compiled, Scope};
use crate::rewrite::Filled;
use maitred_config::ResponseHeaders;

/// A route's rules come behind those of its site: they take precedence.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_site = scope.site.map(|site| &site.response_headers);
    let of_route = scope.route.map(|route| &route.response_headers);
    for rules in [of_site, of_route].into_iter().flatten() {
        apply(rules, compiled);
    }
}

fn apply(rules: &ResponseHeaders, compiled: &mut Compiled) {
    compiled.needs_response |= *rules != ResponseHeaders::default();
    rules.remove.iter().for_each(|name| compiled.remove(name));
    for (name, value) in &rules.set {
        compiled.remove(name);
        compiled.always.set(name, value.as_bytes());
    }
    for (name, value) in &rules.set_filled {
        compiled.remove(name);
        compiled.filled.push(Filled::new(name, value));
    }
    for (name, value) in &rules.add_filled {
        compiled.always.leave_out(name);
        compiled.filled.push(Filled::new(name, value));
    }
    let edits = &mut compiled.always;
    rules.add.iter().for_each(|(name, value)| edits.add(name, value.as_bytes()));
    rules.if_absent.iter().for_each(|(name, value)| edits.add_if_absent(name, value.as_bytes()));
}

#[cfg(test)]
mod tests {
    use maitred_http::fields::FieldLines;

    use super::*;
    use maitred_config::Template;

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn fields_with_placeholders_are_replaced_as_others_are() {
        let filled = |name: &str| vec![(name.to_owned(), Template::parse_value("{client}").unwrap())];
        let names = |compiled: &Compiled| -> Vec<String> {
            compiled.filled.iter().map(|filled| filled.name.to_string()).collect()
        };
        for (route, left, dropped) in [
            (ResponseHeaders::default(), vec!["X-A"], true),
            (ResponseHeaders { set: pairs(&[("x-a", "route")]), ..ResponseHeaders::default() }, vec![], true),
            (ResponseHeaders { remove: vec!["x-a".into()], ..ResponseHeaders::default() }, vec![], true),
            (ResponseHeaders { set_filled: filled("x-A"), ..ResponseHeaders::default() }, vec!["x-A"], true),
            (
                ResponseHeaders { add_filled: filled("x-a"), ..ResponseHeaders::default() },
                vec!["X-A", "x-a"],
                true,
            ),
        ] {
            let site = ResponseHeaders { set_filled: filled("X-A"), ..ResponseHeaders::default() };
            let mut compiled = Compiled::default();
            apply(&site, &mut compiled);
            apply(&route, &mut compiled);
            assert_eq!(
                (names(&compiled), compiled.always.drops("x-a")),
                (left.into_iter().map(str::to_owned).collect(), dropped)
            );
            assert!(compiled.needs_response);
        }
        let mut compiled = Compiled::default();
        apply(&ResponseHeaders { add_filled: filled("X-A"), ..ResponseHeaders::default() }, &mut compiled);
        compiled.always.add_if_absent("X-B", b"");
        assert!(!compiled.always.drops("x-a"), "it comes beside those of the application");
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
