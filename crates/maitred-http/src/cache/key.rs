//! The key of a request: requests with the same key are for the same resource (9111-2).

use super::{Rules, Target, vary};
use crate::request::Request;
use crate::uri::{self, Slashes};

/// Parameters of a query that a [`KeyRules`] looks at; a query with more is left as it is, but for [`QueryRule::Ignore`].
pub const PARAMETERS_MAX: usize = 256;

/// What of a request makes its key, besides scheme, host and path.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KeyRules {
    /// Which part of the query.
    pub query: QueryRule,
    /// Parameters are sorted by their names; those of one name stay in their order.
    pub sort: bool,
    /// Names of request fields whose values are part of the key, in small letters.
    pub fields: Box<[Box<str>]>,
    /// Names of cookies whose values are part of the key.
    pub cookies: Box<[Box<str>]>,
}

/// Which parameters of a query count. Names are compared decoded, and one that ends in `*` stands for all that begin so.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum QueryRule {
    /// All of them.
    #[default]
    All,
    /// None.
    Ignore,
    /// These.
    Only(Box<[Box<str>]>),
    /// All but these.
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
    let fields = request.fields.iter().map(|field| (field.name.as_bytes(), field.value));
    vary::put_lines(keys.fields.iter().map(|name| &**name), fields.clone(), rules, out);
    let cookies = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie")).map(|(_, line)| line);
    for wanted in &keys.cookies {
        out.extend_from_slice(b"cookie ");
        out.extend_from_slice(wanted.as_bytes());
        let pairs = cookies.clone().flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
        let mut values = pairs.filter_map(|pair| {
            let value = pair.strip_prefix(wanted.as_bytes())?;
            value.strip_prefix(b"=")
        });
        // The first one is the one that applications see.
        if let Some(value) = values.next() {
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'\n');
    }
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
    let plain = keys.query == QueryRule::All && !keys.sort;
    if plain || query.bytes().filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX {
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
