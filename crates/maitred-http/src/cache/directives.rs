//! `Cache-Control` (9111-5.2), its targeted forms (9213), and `Pragma` (9111-5.4).

use super::Rules;
use super::structured::{self, Bare};
use crate::request::is_token_byte;
use crate::response::ResponseHead;

/// The most seconds that a directive or age can say: larger numbers are this one (9111-1.2.2).
pub const SECONDS_MAX: u32 = 1 << 31;

/// A number of seconds: digits only, and at least one.
pub(super) fn seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .fold(0_u32, |value, digit| value.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    Some(value.min(SECONDS_MAX))
}

/// Gives each directive of a line: its name, and its argument without quotes. Lines are read as leniently as servers write
/// them: what is malformed spoils its own directive only.
pub(super) fn walk<'a>(line: &'a [u8], mut each: impl FnMut(&'a [u8], Option<&'a [u8]>)) {
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'=')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (argument, after) = match after {
            [b'=', argument @ ..] => split_argument(argument),
            _ => (None, after),
        };
        // White space before "=" is not allowed, and makes the argument a wrong one.
        let spaced = name.last().is_some_and(u8::is_ascii_whitespace);
        let argument = argument.map(|argument| if spaced { b" ".as_slice() } else { argument });
        let name = name.trim_ascii();
        if !name.is_empty() {
            each(name, argument);
        }
        rest = after.get(1..).unwrap_or_default();
    }
}

/// The argument that a text begins with, and what is behind it: nothing, or a comma and more.
fn split_argument(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let (argument, after) = split_at_comma(text);
        return (Some(argument.trim_ascii_end()), after);
    };
    let mut escaped = false;
    let end = quoted.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    // A string without its end goes to the end of the line: no directive is read out of the middle of it.
    let Some(end) = end else { return (Some(text), &[]) };
    let (inner, after) = quoted.split_at(end);
    let (behind, after) = split_at_comma(after.get(1..).unwrap_or_default());
    (Some(if behind.trim_ascii().is_empty() { inner } else { text }), after)
}

fn split_at_comma(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(memchr::memchr(b',', text).unwrap_or(text.len()))
}

/// What a response says of its storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    /// Without names of fields.
    pub(super) no_cache: bool,
    /// Without names of fields.
    pub(super) private: bool,
    /// `no-cache` or `private` with names of fields.
    pub(super) names_fields: bool,
    pub(super) public: bool,
    pub(super) must_revalidate: bool,
    pub(super) proxy_revalidate: bool,
    pub(super) must_understand: bool,
    pub(super) max_age: Option<u32>,
    pub(super) s_maxage: Option<u32>,
    pub(super) stale_while_revalidate: Option<u32>,
    pub(super) stale_if_error: Option<u32>,
}

impl Directives {
    fn take(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let number = argument.and_then(seconds);
        if is("max-age") {
            // Of several the first counts, and one that is no number is stale at once (9111-4.2.1).
            self.max_age.get_or_insert(number.unwrap_or(0));
        } else if is("s-maxage") {
            self.s_maxage.get_or_insert(number.unwrap_or(0));
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate = self.stale_while_revalidate.or(number);
        } else if is("stale-if-error") {
            self.stale_if_error = self.stale_if_error.or(number);
        } else if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") || is("private") {
            let named = argument.is_some_and(names_plain_fields);
            let whole = if is("private") { &mut self.private } else { &mut self.no_cache };
            *(if named { &mut self.names_fields } else { whole }) = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("must-understand") {
            self.must_understand = true;
        }
    }

    /// The directives of the field that this cache follows: the first of its targeted ones that is there and valid, or
    /// `Cache-Control`. Says which one that is: a place in `rules.targets`.
    pub(super) fn of(head: &ResponseHead<'_>, rules: &Rules) -> (Directives, Option<usize>) {
        for (at, target) in rules.targets.iter().enumerate() {
            if let Some(directives) = Self::targeted(head, target.as_bytes()) {
                return (directives, Some(at));
            }
        }
        let mut directives = Directives::default();
        head.for_each(|name, line| {
            if name.eq_ignore_ascii_case(b"cache-control") {
                walk(line, |name, argument| directives.take(name, argument));
            }
        });
        (directives, None)
    }

    /// Takes a member of a targeted field. A number of another type is ignored; a word is not, whatever value it has.
    fn take_member(&mut self, key: &[u8], value: Bare<'_>) {
        // Of several members with one key the last counts there (9651-3.2).
        let number = match key {
            b"max-age" => Some(&mut self.max_age),
            b"s-maxage" => Some(&mut self.s_maxage),
            b"stale-while-revalidate" => Some(&mut self.stale_while_revalidate),
            b"stale-if-error" => Some(&mut self.stale_if_error),
            _ => None,
        };
        match (number, value) {
            (Some(slot), Bare::Integer(seconds)) => {
                *slot = Some(seconds.clamp(0, i64::from(SECONDS_MAX)) as u32);
            }
            (Some(_), _) | (None, Bare::Boolean(false)) => {}
            (None, Bare::String(names) | Bare::Token(names)) => self.take(key, Some(names)),
            (None, _) => self.take(key, None),
        }
    }

    /// The directives of a targeted field; `None` if it is not there, is empty, or is no dictionary (9213-2.1).
    fn targeted(head: &ResponseHead<'_>, target: &[u8]) -> Option<Directives> {
        let (mut directives, mut any, mut valid) = (Directives::default(), false, true);
        head.for_each(|name, line| {
            if valid && name.eq_ignore_ascii_case(target) {
                let parsed = structured::dictionary(line, |key, value| {
                    any = true;
                    directives.take_member(key, value);
                });
                valid = parsed.is_some();
            }
        });
        (any && valid).then_some(directives)
    }
}

/// Whether the argument of `no-cache` or `private` names fields that the response makes sense without: one that names others is
/// about the whole response.
fn names_plain_fields(argument: &[u8]) -> bool {
    const NEEDED: [&str; 6] =
        ["cache-control", "content-encoding", "content-length", "content-range", "content-type", "vary"];
    let needed = |name: &[u8]| NEEDED.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    let mut names = field_names(argument).peekable();
    names.peek().is_some() && !names.any(needed)
}

/// The names of fields that the argument of `no-cache` or `private` has.
fn field_names(argument: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = argument.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    names.filter(|name| !name.is_empty() && name.iter().all(is_token_byte))
}

/// Gives each name of a field that `no-cache` or `private` has in the field at this place, or in `Cache-Control`.
pub(super) fn for_each_named_field(
    head: &ResponseHead<'_>,
    rules: &Rules,
    target: Option<usize>,
    mut each: impl FnMut(&[u8]),
) {
    let targeted = target.and_then(|at| rules.targets.get(at));
    let followed = targeted.map_or(b"cache-control".as_slice(), |target| target.as_bytes());
    let mut take = |name: &[u8], argument: &[u8]| {
        if name.eq_ignore_ascii_case(b"no-cache") || name.eq_ignore_ascii_case(b"private") {
            field_names(argument).for_each(&mut each);
        }
    };
    head.for_each(|name, line| match targeted {
        _ if !name.eq_ignore_ascii_case(followed) => {}
        None => walk(line, |name, argument| take(name, argument.unwrap_or_default())),
        Some(_) => {
            let _ = structured::dictionary(line, |key, value| match value {
                Bare::String(text) | Bare::Token(text) => take(key, text),
                _ => {}
            });
        }
    });
}

/// What a request says of its answer (9111-5.2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestDirectives {
    pub(crate) no_cache: bool,
    pub(crate) no_store: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<u32>,
    /// [`u32::MAX`] if any staleness is acceptable.
    pub(crate) max_stale: Option<u32>,
    pub(crate) min_fresh: Option<u32>,
    pub(crate) stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// The directives of a request with these fields.
    pub(super) fn of<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> RequestDirectives {
        let mut directives = RequestDirectives::default();
        let mut any = false;
        let lines = |wanted: &'static [u8]| {
            let named = fields.clone().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            named.map(|(_, line)| line)
        };
        for line in lines(b"cache-control") {
            any = true;
            walk(line, |name, argument| directives.take(name, argument));
        }
        // `Pragma` only counts where there is no `Cache-Control` (9111-5.4).
        for line in lines(b"pragma").filter(|_| !any) {
            walk(line, |name, _| directives.no_cache |= name.eq_ignore_ascii_case(b"no-cache"));
        }
        directives
    }

    fn take(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let number = argument.and_then(seconds);
        if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if is("max-age") {
            self.max_age = self.max_age.or(number);
        } else if is("max-stale") {
            let any = argument.is_none().then_some(u32::MAX);
            self.max_stale = self.max_stale.or(any).or(number);
        } else if is("min-fresh") {
            self.min_fresh = self.min_fresh.or(number);
        } else if is("stale-if-error") {
            self.stale_if_error = self.stale_if_error.or(number);
        }
    }
}
