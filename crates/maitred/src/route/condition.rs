//! Conditions of a route besides path and method, as they are asked.

use regex::bytes::Regex;

use super::pattern::{glob, matches};
use crate::config::{self, PathPattern, ValuePattern, is_within};
use crate::rewrite::Facts;

/// The conditions of a route, compiled.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    all: Set,
    any: Vec<Set>,
    not: Vec<Set>,
}

#[derive(Debug, Default)]
struct Set {
    paths: Vec<PathPattern>,
    headers: Vec<(String, Value)>,
    query: Vec<(String, Value)>,
    cookies: Vec<(String, Value)>,
    https: Option<bool>,
    clients: Vec<config::Network>,
}

#[derive(Debug)]
enum Value {
    Glob(Vec<String>),
    Regex(Regex),
    /// Cannot be: expressions were compiled when the file was read.
    Never,
}

impl Conditions {
    /// Compiles them; `None` if there are none.
    pub(super) fn new(conditions: &config::Conditions) -> Option<Box<Conditions>> {
        let sets = |sets: &[config::ConditionSet]| sets.iter().map(Set::new).collect();
        let compiled = || {
            let (all, any, not) = (&conditions.all, &conditions.any, &conditions.not);
            Box::new(Conditions { all: Set::new(all), any: sets(any), not: sets(not) })
        };
        (!conditions.is_empty()).then(compiled)
    }

    /// Whether they hold for a request.
    pub(super) fn hold(&self, facts: &Facts<'_>) -> bool {
        self.all.holds(facts)
            && (self.any.is_empty() || self.any.iter().any(|set| set.holds(facts)))
            && !self.not.iter().any(|set| set.holds(facts))
    }
}

impl Set {
    fn new(set: &config::ConditionSet) -> Set {
        let values = |values: &[(String, ValuePattern)]| {
            values.iter().map(|(name, value)| (name.clone(), Value::new(value))).collect()
        };
        Set {
            paths: set.paths.clone(),
            headers: values(&set.headers),
            query: values(&set.query),
            cookies: values(&set.cookies),
            https: set.https,
            clients: set.clients.clone(),
        }
    }

    fn holds(&self, facts: &Facts<'_>) -> bool {
        let of_origin = self.https.is_some() || !self.clients.is_empty();
        (self.paths.is_empty() || self.paths.iter().any(|path| matches(path, facts.path)))
            && self.headers.iter().all(|(name, value)| facts.fields(name).any(|found| value.is(found)))
            && self.query.iter().all(|(name, value)| {
                facts.parameters(name).any(|found| value.is(&maitred_http::uri::decode_parameter(found)))
            })
            && self
                .cookies
                .iter()
                .all(|(name, value)| facts.cookie(name).is_some_and(|found| value.is(found)))
            && (!of_origin || self.comes_from(facts))
    }

    fn comes_from(&self, facts: &Facts<'_>) -> bool {
        let origin = (facts.origin)();
        let within = |address| is_within(address, &self.clients);
        self.https.is_none_or(|https| https == origin.https)
            && (self.clients.is_empty() || origin.client.is_some_and(within))
    }
}

impl Value {
    fn new(pattern: &ValuePattern) -> Value {
        match pattern {
            ValuePattern::Glob(pieces) => Value::Glob(pieces.clone()),
            ValuePattern::Regex(text) => config::regex(text).map_or(Value::Never, Value::Regex),
        }
    }

    fn is(&self, value: &[u8]) -> bool {
        match self {
            Value::Glob(pieces) => glob(pieces, value),
            Value::Regex(regex) => regex.is_match(value),
            Value::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConditionSet, Network};
    use crate::rewrite::testing::with_facts;

    const HEAD: &str = "GET /api/x?debug=1&name=a%20b HTTP/1.1\r\nHost: h\r\nUser-Agent: Mozilla\r\n\
                        X-A: one\r\nX-A: two\r\nCookie: beta=yes\r\n\r\n";

    fn pair(name: &str, value: &str) -> Vec<(String, ValuePattern)> {
        let value = match value.strip_prefix('~') {
            Some(regex) => ValuePattern::Regex(regex.into()),
            None => ValuePattern::Glob(value.split('*').map(str::to_owned).collect()),
        };
        vec![(name.to_owned(), value)]
    }

    fn header(name: &str, value: &str) -> ConditionSet {
        ConditionSet { headers: pair(name, value), ..ConditionSet::default() }
    }

    fn hold(conditions: config::Conditions) -> bool {
        let compiled = Conditions::new(&conditions);
        with_facts(HEAD, |facts| compiled.is_none_or(|conditions| conditions.hold(facts)))
    }

    fn holds(all: ConditionSet) -> bool {
        hold(config::Conditions { all, ..config::Conditions::default() })
    }

    #[test]
    fn a_field_has_one_of_its_values() {
        for (name, value, expected) in [
            ("x-a", "two", true),
            ("x-a", "three", false),
            ("x-a", "*", true),
            ("x-b", "*", false),
            ("user-agent", "Moz*", true),
            ("user-agent", "*ill*", true),
            ("user-agent", "moz*", false),
            ("user-agent", "~(?i)^moz", true),
        ] {
            assert_eq!(holds(header(name, value)), expected, "{name}: {value}");
        }
    }

    #[test]
    fn query_cookie_scheme_and_address_are_looked_at() {
        let query =
            |name: &str, value: &str| ConditionSet { query: pair(name, value), ..ConditionSet::default() };
        let cookie = |value: &str| ConditionSet { cookies: pair("beta", value), ..ConditionSet::default() };
        let scheme = |https| ConditionSet { https: Some(https), ..ConditionSet::default() };
        let client = |network: &str, bits: u8| {
            let clients: Vec<Network> = vec![(network.parse().unwrap(), bits)];
            ConditionSet { clients, ..ConditionSet::default() }
        };
        assert!(holds(query("debug", "1")) && holds(query("name", "a b")) && !holds(query("debug", "")));
        assert!(holds(cookie("yes")) && !holds(cookie("no")));
        assert!(holds(scheme(false)) && !holds(scheme(true)));
        assert!(holds(client("192.0.2.0", 24)) && !holds(client("10.0.0.0", 8)));
    }

    #[test]
    fn of_any_one_holds_and_of_not_none() {
        let (true_one, false_one) = (header("x-a", "one"), header("x-a", "no"));
        let any = |any: Vec<ConditionSet>| hold(config::Conditions { any, ..config::Conditions::default() });
        let not = |not: Vec<ConditionSet>| hold(config::Conditions { not, ..config::Conditions::default() });
        assert!(any(vec![]) && any(vec![false_one.clone(), true_one.clone()]));
        assert!(!any(vec![false_one.clone(), false_one.clone()]));
        assert!(not(vec![false_one.clone()]) && !not(vec![false_one.clone(), true_one.clone()]));
        let path = ConditionSet { paths: vec![PathPattern::Prefix("/api/".into())], ..true_one };
        assert!(any(vec![path.clone()]) && !not(vec![path]));
        // Both parts of a table have to hold for it.
        let both = ConditionSet { cookies: pair("beta", "no"), ..header("x-a", "one") };
        assert!(!any(vec![both.clone()]) && not(vec![both]));
    }
}
