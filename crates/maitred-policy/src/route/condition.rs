//! Conditions of a route besides path and method, as they are asked.

use std::hash::Hasher as _;
use std::net::IpAddr;

use regex::bytes::Regex;
use siphasher::sip::SipHasher13;

use super::pattern::{glob, matches};
use crate::arrival::Arrival;
use crate::rewrite::Facts;
use maitred_config::{self as config, PathPattern, Share, ShareKey, ValuePattern, is_within};

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
    arrival: Option<config::ArrivalCondition>,
    share: Option<Share>,
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
            arrival: (!set.arrival.is_empty()).then(|| set.arrival.clone()),
            share: set.share.clone(),
        }
    }

    fn holds(&self, facts: &Facts<'_>) -> bool {
        let of_origin = self.https.is_some() || !self.clients.is_empty();
        self.arrival.as_ref().is_none_or(|condition| has_come_in(condition, facts.arrival))
            && (self.paths.is_empty() || self.paths.iter().any(|path| matches(path, facts.path)))
            && self.headers.iter().all(|(name, value)| facts.fields(name).any(|found| value.is(found)))
            && self.query.iter().all(|(name, value)| {
                facts.parameters(name).any(|found| value.is(&maitred_http::uri::decode_parameter(found)))
            })
            && self
                .cookies
                .iter()
                .all(|(name, value)| facts.cookie(name).is_some_and(|found| value.is(found)))
            && (!of_origin || self.comes_from(facts))
            && self.share.as_ref().is_none_or(|share| is_among(share, facts))
    }

    fn comes_from(&self, facts: &Facts<'_>) -> bool {
        let origin = (facts.origin)();
        let within = |address| is_within(address, &self.clients);
        self.https.is_none_or(|https| https == origin.https)
            && (self.clients.is_empty() || origin.client.is_some_and(within))
    }
}

/// Whether a request has come in there.
fn has_come_in(condition: &config::ArrivalCondition, arrival: &Arrival<'_>) -> bool {
    let is_one = |listeners: &Vec<u16>| arrival.listener().is_some_and(|own| listeners.contains(&own));
    condition.listeners.as_ref().is_none_or(is_one)
        && condition.port.is_none_or(|port| arrival.local_port() == Some(port))
        && condition.tls.is_none_or(|tls| arrival.is_tls() == tls)
        && condition.certificate.is_none_or(|certificate| arrival.has_certificate() == certificate)
}

/// Whether a request is of a client that the share has. The same number on every machine, in every version and for every
/// percentage, so that no client goes back and forth.
fn is_among(share: &Share, facts: &Facts<'_>) -> bool {
    let named = match &share.by {
        ShareKey::Client => None,
        ShareKey::Header(name) => facts.fields(name).next(),
        ShareKey::Cookie(name) => facts.cookie(name),
    };
    let mut hasher = SipHasher13::new_with_keys(0x6d61_6974_7265_6400, 0x7368_6172_6500_0000);
    hasher.write(share.name.as_bytes());
    // No name goes on in the value.
    hasher.write_u8(0xff);
    match (named.filter(|named| !named.is_empty()), (facts.origin)().client) {
        (Some(named), _) => hasher.write(named),
        (None, Some(IpAddr::V4(address))) => hasher.write(&address.octets()),
        // What a network gives to one customer; addresses within it change every day.
        (None, Some(IpAddr::V6(address))) => hasher.write(address.octets().get(..8).unwrap_or_default()),
        (None, None) => {}
    }
    hasher.finish() % u64::from(Share::WHOLE) < u64::from(share.parts)
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
    use crate::rewrite::testing::with_facts;
    use maitred_config::{ConditionSet, Network};

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
    fn the_connection_says_where_a_request_has_come_in() {
        use config::ArrivalCondition;
        let local = "192.0.2.9:8443".parse().unwrap();
        let clear = Arrival::new(Some(2), Some(&local));
        let secure = clear.over_tls(true);
        let none = ArrivalCondition::default();
        let at = |listeners: &[u16]| ArrivalCondition { listeners: Some(listeners.to_vec()), ..none.clone() };
        let port = |port| ArrivalCondition { port: Some(port), ..none.clone() };
        let tls = |tls| ArrivalCondition { tls: Some(tls), ..none.clone() };
        let certificate = |certificate| ArrivalCondition { certificate: Some(certificate), ..none.clone() };
        for (condition, in_clear, over_tls) in [
            (at(&[1, 2]), true, true),
            (at(&[1]), false, false),
            (port(8443), true, true),
            (port(443), false, false),
            (tls(true), false, true),
            (tls(false), true, false),
            (certificate(true), false, true),
            (certificate(false), true, false),
            (none.clone(), true, true),
        ] {
            assert_eq!(has_come_in(&condition, &clear), in_clear, "{condition:?}");
            assert_eq!(has_come_in(&condition, &secure), over_tls, "{condition:?}");
        }
        // By a listener that the configuration does not have any more.
        let gone = Arrival::new(None, None);
        assert!(!has_come_in(&at(&[0]), &gone) && !has_come_in(&port(8443), &gone));
        // What a client writes is not asked.
        let conditions = config::Conditions {
            all: ConditionSet { arrival: port(443), ..ConditionSet::default() },
            ..config::Conditions::default()
        };
        let compiled = Conditions::new(&conditions).unwrap();
        with_facts("GET / HTTP/1.1\r\nHost: h:443\r\n\r\n", |facts| assert!(!compiled.hold(facts)));
    }

    #[test]
    fn a_share_has_always_the_same_ones_and_more_with_a_larger_percentage() {
        let among = |parts, name: &str, by: &ShareKey, value: usize| {
            let share = Share { parts, by: by.clone(), name: name.to_owned() };
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: id={value}\r\nX-Id: {value}\r\n\r\n");
            with_facts(&head, |facts| is_among(&share, facts))
        };
        let cookie = ShareKey::Cookie("id".to_owned());
        let share = |parts, name: &str| -> Vec<usize> {
            (0..4000).filter(|value| among(parts, name, &cookie, *value)).collect()
        };
        let (tenth, fifth, other) = (share(1000, ""), share(2000, ""), share(1000, "other"));
        assert!((340..460).contains(&tenth.len()), "{}", tenth.len());
        assert!((720..880).contains(&fifth.len()), "{}", fifth.len());
        assert!(tenth.iter().all(|value| fifth.contains(value)));
        let both = other.iter().filter(|value| tenth.contains(value)).count();
        assert!((15..70).contains(&both), "{both} of both names");
        assert_eq!((share(0, "").len(), share(Share::WHOLE, "").len()), (0, 4000));
        // A value is the same wherever it stands; without it the address counts, which all have in common here.
        let header = ShareKey::Header("x-id".to_owned());
        assert!((0..100).all(|value| among(1000, "", &header, value) == tenth.contains(&value)));
        for by in [ShareKey::Client, ShareKey::Cookie("none".to_owned())] {
            let count = (0..100).filter(|value| among(5000, "", &by, *value)).count();
            assert!(count == 0 || count == 100, "{count}");
        }
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
