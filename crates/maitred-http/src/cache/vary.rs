//! Variants of one key: `Vary` (9110-12.5.5), and which requests select the same one (9111-4.1).

use super::Rules;
use crate::request::{Request, is_token_byte};
use crate::response::ResponseHead;

/// Names in `Vary`; a response with more of them is taken for one that varies with everything.
pub const VARY_NAMES_MAX: usize = 16;

/// Members of one request field that are sorted; of a field with more the text counts.
pub const VARIANT_VALUES_MAX: usize = 32;

/// What a response varies with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vary {
    /// Nothing.
    Nothing,
    /// More than can be named (`*`): it answers no other request.
    Any,
    /// The named request fields: names in small letters, sorted, each once, with commas between them.
    Fields(Box<str>),
}

/// What a response varies with: all lines of its `Vary` are one list.
pub fn vary(head: &ResponseHead<'_>) -> Vary {
    let (mut names, mut any): (Vec<String>, bool) = (Vec::new(), false);
    head.for_each(|name, line| {
        if !name.eq_ignore_ascii_case(b"vary") {
            return;
        }
        for name in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
            // What is no name cannot be compared. `*` is one by its bytes.
            any |= name == b"*" || !name.iter().all(is_token_byte);
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            if !any && !names.contains(&name) {
                any |= names.len() == VARY_NAMES_MAX;
                names.push(name);
            }
        }
    });
    names.sort_unstable();
    match names.is_empty() {
        _ if any => Vary::Any,
        true => Vary::Nothing,
        false => Vary::Fields(names.join(",").into()),
    }
}

/// Appends what tells the variants of a key apart: for each of the names (those of [`Vary::Fields`]) a line with the request's
/// value. Requests with the same lines select the same variant. Values are compared as lists: their lines are joined, and white
/// space around commas does not count. `Accept-Encoding` is a set with weights, and so is `Accept-Language` if the rules say so.
/// A field that is not there has a line without a colon.
pub fn put_variant_key(names: &str, request: &Request<'_, '_>, rules: &Rules, out: &mut Vec<u8>) {
    put_lines(names.split(','), passed(request), rules, out);
}

/// The fields of a request that its server may see: those that `Connection` names end here (9110-7.6.1), so that a client that
/// names one has nothing of it in any key.
pub(super) fn passed<'r, 'a>(
    request: &'r Request<'_, 'a>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'r, 'a> {
    let connection = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
    let options = connection.flat_map(|field| field.value.split(|byte| *byte == b','));
    let named: Vec<&'a [u8]> = options.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()).collect();
    let fields = request.fields.iter().map(|field| (field.name.as_bytes(), field.value));
    fields.filter(move |(name, _)| !named.iter().any(|other| other.eq_ignore_ascii_case(name)))
}

pub(super) fn put_lines<'n, 'a>(
    names: impl Iterator<Item = &'n str>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    rules: &Rules,
    out: &mut Vec<u8>,
) {
    for name in names {
        out.extend_from_slice(name.as_bytes());
        let own = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name.as_bytes());
        let mut lines = fields.clone().filter(own).map(|(_, value)| value).peekable();
        if lines.peek().is_some() {
            out.push(b':');
            let weighted =
                name == "accept-encoding" || (name == "accept-language" && rules.normalise_language);
            if name == "cookie" {
                put_joined(lines, b"; ", out);
            } else if weighted {
                put_weighted(lines, out);
            } else {
                put_list(lines, out);
            }
        }
        out.push(b'\n');
    }
}

fn put_joined<'a>(lines: impl Iterator<Item = &'a [u8]>, between: &[u8], out: &mut Vec<u8>) {
    for (at, line) in lines.enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { between });
        out.extend_from_slice(line.trim_ascii());
    }
}

/// Lines as one list, without white space around the commas that are not in a string.
fn put_list<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, line) in lines.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let (mut quoted, mut escaped, mut spaces) = (false, false, 0_usize);
        let start = out.len();
        for byte in line.trim_ascii() {
            match byte {
                b' ' | b'\t' if !quoted => spaces += 1,
                b',' if !quoted => {
                    spaces = 0;
                    out.push(b',');
                }
                byte => {
                    // White space within a member stays, whatever there is of it, as one space.
                    if spaces > 0 && out.len() > start && out.last() != Some(&b',') {
                        out.push(b' ');
                    }
                    spaces = 0;
                    quoted ^= *byte == b'"' && !escaped;
                    escaped = quoted && *byte == b'\\' && !escaped;
                    out.push(*byte);
                }
            }
        }
    }
}

/// A member of a list with weights: its name in small letters, and its weight in thousandths.
type Weighted = (u16, Vec<u8>);

/// Lists with weights (9110-12.4.2), the greatest first, and names of the same weight sorted: their order says nothing. What is
/// not acceptable is left out, unless something else would accept it.
fn put_weighted<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    let mut members: Vec<Weighted> = Vec::new();
    for element in lines.clone().flat_map(|line| line.split(|byte| *byte == b',')) {
        let Some(member) = weighted(element) else { return put_list(lines, out) };
        if member.1.is_empty() || members.iter().any(|(_, other)| *other == member.1) {
            continue;
        }
        if members.len() == VARIANT_VALUES_MAX {
            return put_list(lines, out);
        }
        members.push(member);
    }
    let any = members.iter().any(|(_, name)| name == b"*");
    members.retain(|(weight, name)| *weight > 0 || any || name == b"identity");
    members.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let mut before = None;
    for (weight, name) in &members {
        // A semicolon where the weight falls; what is not acceptable has an exclamation mark.
        match before {
            None => {}
            Some(other) if other == *weight => out.push(b','),
            Some(_) => out.push(b';'),
        }
        if *weight == 0 {
            out.push(b'!');
        }
        out.extend_from_slice(name);
        before = Some(*weight);
    }
}

/// `name;q=0.5`. `None` if there is anything else in it.
fn weighted(element: &[u8]) -> Option<Weighted> {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = crate::negotiate::weight(parts.next())?;
    if parts.next().is_some() || !name.iter().all(is_token_byte) {
        return None;
    }
    if name == b"x-gzip" {
        name = b"gzip".to_vec();
    }
    Some((weight, name))
}
