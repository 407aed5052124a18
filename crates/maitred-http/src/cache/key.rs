//! The key of a request: requests with the same key are for the same resource (9111-2).

use super::{Rules, Target, vary};
use crate::request::Request;
use crate::uri::{self, Slashes};

/// Parameters of a query that a [`KeyRules`] looks at; a query with more is left as it is, but for [`QueryRule::Ignore`].
pub const PARAMETERS_MAX: usize = 256;

/// What of a request makes its key, besides scheme, host and path.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KeyRules {
    /// What tells apart what answers requests for one URL, such as the route and its pool: a line, without its end. Nothing, if
    /// it is empty.
    pub answered_by: Box<str>,
    /// The part of the query that counts.
    pub query: QueryRule,
    /// Parameters are sorted by their names; those of one name stay in their order.
    pub sort: bool,
    /// Names of request fields whose values are part of the key, in small letters.
    pub fields: Box<[Box<str>]>,
    /// Names of cookies whose values are part of the key.
    pub cookies: Box<[Box<str>]>,
}

/// Which parameters of a query count. Names are compared decoded, and a name that ends in `*` stands for all that begin so.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum QueryRule {
    /// All of them.
    #[default]
    All,
    /// None.
    Ignore,
    /// The named parameters.
    Only(Box<[Box<str>]>),
    /// All but the named ones.
    Without(Box<[Box<str>]>),
}

/// Appends the key of a request: its URI in the one form that all of its spellings have, and a line for each field and cookie.
/// The method is no part of it: HEAD is answered by what GET has stored.
pub fn put_key(
    target: &Target<'_>,
    request: &Request<'_, '_>,
    (keys, rules): (&KeyRules, &Rules),
    out: &mut Vec<u8>,
) {
    put_origin_and_path(target, out);
    put_query(target.query, keys, out);
    out.push(b'\n');
    if !keys.answered_by.is_empty() {
        out.extend_from_slice(keys.answered_by.as_bytes());
        out.push(b'\n');
    }
    if !keys.fields.is_empty() {
        vary::put_lines(keys.fields.iter().map(|name| &**name), vary::passed(request), rules, out);
    }
    for wanted in &keys.cookies {
        out.extend_from_slice(b"cookie ");
        out.extend_from_slice(wanted.as_bytes());
        if let Some(value) = first_cookie(request, wanted) {
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'\n');
    }
}

/// The value of a cookie: of several with one name the first, which is the one that applications see.
fn first_cookie<'a>(request: &Request<'_, 'a>, wanted: &str) -> Option<&'a [u8]> {
    cookie_pairs(request).find_map(|pair| pair.strip_prefix(wanted.as_bytes())?.strip_prefix(b"="))
}

/// Names and values of all cookies, as they were sent.
fn cookie_pairs<'r, 'a>(request: &'r Request<'_, 'a>) -> impl Iterator<Item = &'a [u8]> + use<'r, 'a> {
    let lines = vary::passed(request).filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
    let pairs = lines.flat_map(|(_, line)| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    pairs.filter(|pair| !pair.is_empty())
}

/// What a request says that its key does not, left out: what is fetched for all who have the key must not depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    /// The query, without its `?`; `None` without one.
    pub query: Option<String>,
    /// The one `Cookie` field in place of those that were sent; `None` if these go along as they are. Empty is no field.
    pub cookies: Option<Vec<u8>>,
    /// Something was left out.
    pub any: bool,
}

/// What of a request goes to the server when its response is to be given to all requests with the same key. `sent` is the query
/// as the client has sent it: where a route has rewritten it, what the route has put there stays.
pub fn reduced(request: &Request<'_, '_>, sent: Option<&str>, keys: &KeyRules) -> Reduced {
    let (query, mut any) = reduced_query(request.query, sent, keys);
    let cookies = (!keys.cookies.is_empty()).then(|| {
        let (mut line, mut named) = (Vec::new(), 0);
        for wanted in &keys.cookies {
            if let Some(value) = first_cookie(request, wanted) {
                let between: &[u8] = if line.is_empty() { b"" } else { b"; " };
                line.extend([between, wanted.as_bytes(), b"=", value].concat());
                named += 1;
            }
        }
        any |= cookie_pairs(request).count() > named;
        line
    });
    Reduced { query, cookies, any }
}

fn reduced_query(query: Option<&str>, sent: Option<&str>, keys: &KeyRules) -> (Option<String>, bool) {
    let Some(query) = query else { return (None, false) };
    let parts = |query: &str| query.split('&').filter(|part| !part.is_empty()).count();
    let mut out = Vec::with_capacity(query.len() + 1);
    if Some(query) == sent {
        // What the key has is what is sent.
        put_query(Some(query), keys, &mut out);
        let left = String::from_utf8_lossy(&out).into_owned();
        let any = !is_plain(query, keys) && parts(left.strip_prefix('?').unwrap_or(&left)) < parts(query);
        return (left.strip_prefix('?').map(str::to_owned), any);
    }
    if keys.query == QueryRule::All {
        return (Some(query.to_owned()), false);
    }
    let counted = |part: &&str| {
        let is_sent = sent.is_some_and(|sent| sent.split('&').any(|other| other == *part));
        let name = uri::decode_parameter(part.split('=').next().unwrap_or_default());
        !is_sent || keys.query != QueryRule::Ignore && counts(&name, &keys.query)
    };
    let kept: Vec<&str> = query.split('&').filter(counted).collect();
    let any = kept.len() < query.split('&').count();
    ((!kept.is_empty()).then(|| kept.join("&")), any)
}

/// Appends the key of a target without rules.
pub(super) fn put_target(target: &Target<'_>, out: &mut Vec<u8>) {
    put_origin_and_path(target, out);
    put_query(target.query, &KeyRules::default(), out);
}

/// Whether two authorities are the same for a scheme.
pub(super) fn same_authority(scheme: &str, one: &str, other: &str) -> bool {
    without_default_port(scheme, one).eq_ignore_ascii_case(without_default_port(scheme, other))
}

/// The authority of a target in the one spelling that its key has: in small letters, without the default port.
pub fn canonical_authority(scheme: &str, authority: &str) -> String {
    without_default_port(scheme, authority).to_ascii_lowercase()
}

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    // An empty port is the default one, too (9110-4.2.3).
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}

fn put_origin_and_path(target: &Target<'_>, out: &mut Vec<u8>) {
    out.extend(target.scheme.bytes().map(|byte| byte.to_ascii_lowercase()));
    out.extend_from_slice(b"://");
    let authority = without_default_port(target.scheme, target.authority);
    out.extend(authority.bytes().map(|byte| byte.to_ascii_lowercase()));
    // What has no canonical form is refused elsewhere, and has a key of its own until then.
    if uri::canonical_path(target.path, Slashes::Keep, out).is_err() {
        out.extend_from_slice(target.path.as_bytes());
    }
}

fn put_query(query: Option<&str>, keys: &KeyRules, out: &mut Vec<u8>) {
    let Some(query) = query.filter(|_| keys.query != QueryRule::Ignore) else { return };
    if is_plain(query, keys) {
        out.push(b'?');
        return uri::canonical_query(query, out);
    }
    let parts = query.split('&').filter(|part| !part.is_empty());
    let names = parts.map(|part| (uri::decode_parameter(part.split('=').next().unwrap_or_default()), part));
    let mut kept: Vec<(Vec<u8>, &str)> = names.filter(|(name, _)| counts(name, &keys.query)).collect();
    if keys.sort {
        kept.sort_by(|one, other| one.0.cmp(&other.0));
    }
    for (at, (_, part)) in kept.iter().enumerate() {
        out.push(if at == 0 { b'?' } else { b'&' });
        uri::canonical_query(part, out);
    }
}

/// Whether no rule looks at the parameters of a query.
fn is_plain(query: &str, keys: &KeyRules) -> bool {
    let many = || query.bytes().filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX;
    keys.query != QueryRule::Ignore && (keys.query == QueryRule::All && !keys.sort || many())
}

fn counts(name: &[u8], rule: &QueryRule) -> bool {
    let named = |names: &[Box<str>]| {
        names.iter().any(|other| match other.strip_suffix('*') {
            Some(start) => name.starts_with(start.as_bytes()),
            None => name == other.as_bytes(),
        })
    };
    match rule {
        QueryRule::All => true,
        QueryRule::Ignore => false,
        QueryRule::Only(names) => named(names),
        QueryRule::Without(names) => !named(names),
    }
}
