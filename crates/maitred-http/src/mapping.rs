//! References in responses of a server behind this one, mapped to what clients have to ask for: `Location` and
//! `Content-Location` (9110-10.2.2, 9110-8.7), `Refresh`, and domain and path of `Set-Cookie` (RFC 6265 section 4.1).

use crate::fields::FieldLines;
use crate::response::{Fields, ResponseHead};

/// Pairs of a text and what takes its place.
pub type Pairs<'a> = &'a [(String, String)];

/// What is known of a server and of the route that leads to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mapping<'a> {
    /// Hosts, with or without ports, by which the server names itself; empty ones are none.
    pub own: [&'a str; 2],
    /// The host of the request; empty if references to it are not looked at.
    pub client: &'a str,
    /// What paths of clients begin with, and what takes its place on the way to the server: both begin and end with `/`.
    pub prefix: Option<(&'a str, &'a str)>,
    /// Whether paths are mapped that stand without the server's host, and those of cookies.
    pub paths: bool,
    /// Beginnings of references, which come before all other rules: the longest one counts.
    pub references: Pairs<'a>,
    /// Domains of cookies. An empty one is left out.
    pub cookie_domains: Pairs<'a>,
    /// Beginnings of the paths of cookies: the longest one counts.
    pub cookie_paths: Pairs<'a>,
}

/// The fields that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reference,
    Refresh,
    Cookie,
}

impl Kind {
    #[inline]
    fn of(name: &[u8]) -> Option<Kind> {
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"refresh") => Some(Kind::Refresh),
            8 if name.eq_ignore_ascii_case(b"location") => Some(Kind::Reference),
            10 if name.eq_ignore_ascii_case(b"set-cookie") => Some(Kind::Cookie),
            16 if name.eq_ignore_ascii_case(b"content-location") => Some(Kind::Reference),
            _ => None,
        }
    }
}

impl Mapping<'_> {
    /// The fields of a head, if one of them changes. Most responses have none that could, and nothing is copied then.
    pub fn fields(&self, head: &ResponseHead<'_>) -> Option<FieldLines> {
        let mut changes = false;
        head.for_each(|name, value| changes |= self.field(name, value).is_some());
        changes.then(|| {
            let mut lines = FieldLines::default();
            head.for_each(|name, value| match self.field(name, value) {
                Some(mapped) => lines.push(name, &mapped),
                None => lines.push(name, value),
            });
            lines
        })
    }

    /// The same as a head with the fields that `lines` has room for.
    pub fn head<'h>(&self, head: &ResponseHead<'h>, lines: &'h mut Option<FieldLines>) -> ResponseHead<'h> {
        *lines = self.fields(head);
        let fields = lines.as_ref().map_or(head.fields, |lines| Fields::Own(lines.all()));
        ResponseHead { fields, ..*head }
    }

    /// The value of a field, if it changes.
    #[inline]
    pub fn field(&self, name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let kind = Kind::of(name)?;
        // A value that is no text is not read by clients either.
        let value = std::str::from_utf8(value).ok()?;
        let mapped = match kind {
            Kind::Reference => self.reference(value),
            Kind::Refresh => self.refresh(value),
            Kind::Cookie => self.cookie(value),
        };
        mapped.filter(|mapped| mapped != value).map(String::into_bytes)
    }

    fn reference(&self, value: &str) -> Option<String> {
        if let Some((from, to)) = longest(self.references, value) {
            return Some(format!("{to}{}", value.get(from.len()..)?));
        }
        let Some((scheme, authority, rest)) = split(value) else {
            let is_path = value.starts_with('/') && !value.starts_with("//");
            let path = (self.paths && is_path).then(|| self.outer_path(value, true)).flatten();
            return path.map(|path| harmless(&path));
        };
        if self.own.iter().any(|own| is_host(authority, own, scheme)) {
            return self.outer_path(rest, false).map(|path| harmless(&path));
        }
        let is_client = self.paths && is_host(authority, self.client, scheme);
        let start = value.len() - rest.len();
        is_client.then(|| Some(format!("{}{}", value.get(..start)?, self.outer_path(rest, true)?)))?
    }

    /// The path, with all that follows it, by which clients reach this one. `None`: no route leads there. An application that
    /// knows its prefix names paths that have it already; `knows`: such a path stays.
    fn outer_path(&self, path: &str, knows: bool) -> Option<String> {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        match self.prefix {
            Some((outer, _)) if knows && path.starts_with(outer) && outer != "/" => Some(path),
            Some((outer, inner)) => path.strip_prefix(inner).map(|rest| format!("{outer}{rest}")),
            None => Some(path),
        }
    }

    /// `5; url=/login`, which browsers read in several spellings.
    fn refresh(&self, value: &str) -> Option<String> {
        let at = value.to_ascii_lowercase().find("url=")? + 4;
        let (start, rest) = (value.get(..at)?, value.get(at..)?);
        let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first));
        let rest = rest.get(quote.map_or(0, char::len_utf8)..)?;
        let (reference, behind) = match quote.and_then(|quote| rest.find(quote)) {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        let quote = quote.map(String::from).unwrap_or_default();
        Some(format!("{start}{quote}{}{behind}", self.reference(reference)?))
    }

    fn cookie(&self, value: &str) -> Option<String> {
        if self.cookie_domains.is_empty() && self.cookie_paths.is_empty() && !self.paths {
            return None;
        }
        let mut out = String::with_capacity(value.len() + 16);
        for (number, part) in value.split(';').enumerate() {
            let attribute = part.split_once('=').filter(|_| number > 0);
            let mapped = attribute.and_then(|(name, value)| {
                let value = value.trim();
                match name.trim() {
                    name if name.eq_ignore_ascii_case("domain") => self.cookie_domain(value),
                    name if name.eq_ignore_ascii_case("path") => self.cookie_path(value),
                    _ => None,
                }
            });
            match (attribute, mapped) {
                (_, Some(mapped)) if mapped.is_empty() => {}
                (Some((name, _)), Some(mapped)) => out.push_str(&format!(";{name}={mapped}")),
                _ if number == 0 => out.push_str(part),
                _ => out.push_str(&format!(";{part}")),
            }
        }
        Some(out)
    }

    fn cookie_domain(&self, domain: &str) -> Option<String> {
        let bare = |domain: &str| domain.strip_prefix('.').unwrap_or(domain).to_ascii_lowercase();
        let found = self.cookie_domains.iter().find(|(from, _)| bare(from) == bare(domain));
        found.map(|(_, to)| to.clone())
    }

    fn cookie_path(&self, path: &str) -> Option<String> {
        if let Some((from, to)) = longest(self.cookie_paths, path) {
            return Some(format!("{to}{}", path.get(from.len()..)?));
        }
        (self.paths && path.starts_with('/')).then(|| self.outer_path(path, true))?
    }
}

/// The pair with the longest first part that a text begins with.
fn longest<'a>(pairs: Pairs<'a>, text: &str) -> Option<(&'a str, &'a str)> {
    let found = pairs.iter().filter(|(from, _)| text.starts_with(from.as_str()));
    found.max_by_key(|(from, _)| from.len()).map(|(from, to)| (from.as_str(), to.as_str()))
}

/// Scheme, authority and rest of a reference that has an authority (RFC 3986 sections 4.1 and 4.2). Without a scheme it is that
/// of the request. `None` also if the authority names a user.
fn split(value: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = match value.strip_prefix("//") {
        Some(rest) => ("", rest),
        None => {
            let (scheme, rest) = value.split_once("://")?;
            let known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
            known.then_some((scheme, rest))?
        }
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    (!authority.contains('@')).then_some((scheme, authority, rest))
}

/// Whether an authority names this host. A port that is not named is that of the scheme, or any if the host has none.
fn is_host(authority: &str, host: &str, scheme: &str) -> bool {
    let (name, port) = name_and_port(host);
    let (found, found_port) = name_and_port(authority);
    let default = if scheme.eq_ignore_ascii_case("https") { "443" } else { "80" };
    let ports_agree = match (port, found_port) {
        (port, Some(found)) => port.unwrap_or(default) == found,
        (Some(port), None) => scheme.is_empty() || port == default,
        (None, None) => true,
    };
    !name.is_empty() && name.eq_ignore_ascii_case(found) && ports_agree
}

fn name_and_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (name, Some(port))
        }
        _ => (authority, None),
    }
}

/// A path as a reference: one that begins with two slashes would name a host (RFC 3986 section 4.2), for browsers also with a
/// backslash.
fn harmless(path: &str) -> String {
    match path.as_bytes() {
        [b'/', b'/' | b'\\', ..] => format!("/.{path}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests;
