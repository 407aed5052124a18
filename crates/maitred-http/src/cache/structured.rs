//! Dictionaries and lists of structured fields (RFC 9651), read strictly: one mistake, and the whole line is none.

/// A value without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bare<'a> {
    Integer(i64),
    /// As it stands between its quotes: with backslashes before quotes and backslashes.
    String(&'a [u8]),
    Token(&'a [u8]),
    Boolean(bool),
    /// A decimal, a date, bytes, a display string or an inner list: none of the fields here has any.
    Other,
}

/// Gives each member of a dictionary: its key, and its value. `None` if the line is no dictionary; members may have been given
/// by then.
pub(super) fn dictionary<'a>(line: &'a [u8], mut each: impl FnMut(&'a [u8], Bare<'a>)) -> Option<()> {
    each_member(line, |input| {
        let key = key(input)?;
        let value = match strip(input, b'=') {
            true => item(input)?,
            false => Bare::Boolean(true),
        };
        parameters(input)?;
        each(key, value);
        Some(())
    })
}

/// The same for a list.
pub(super) fn list<'a>(line: &'a [u8], mut each: impl FnMut(Bare<'a>)) -> Option<()> {
    each_member(line, |input| {
        let value = item(input)?;
        parameters(input)?;
        each(value);
        Some(())
    })
}

/// How many members a list has; `None` if it is none.
pub(crate) fn members(line: &[u8]) -> Option<usize> {
    let mut count = 0;
    list(line, |_| count += 1)?;
    Some(count)
}

/// A text between quotes without its backslashes.
pub(super) fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut escaped = false;
    text.iter().copied().filter(move |byte| {
        escaped = *byte == b'\\' && !escaped;
        !escaped
    })
}

fn each_member<'a>(line: &'a [u8], mut member: impl FnMut(&mut &'a [u8]) -> Option<()>) -> Option<()> {
    let mut input = spaces(line);
    while !input.is_empty() {
        member(&mut input)?;
        input = white_space(input);
        if input.is_empty() {
            break;
        }
        if !strip(&mut input, b',') {
            return None;
        }
        input = white_space(input);
        if input.is_empty() {
            // A comma at the end.
            return None;
        }
    }
    Some(())
}

fn spaces(mut input: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = input {
        input = rest;
    }
    input
}

fn white_space(mut input: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = input {
        input = rest;
    }
    input
}

fn strip(input: &mut &[u8], byte: u8) -> bool {
    match input {
        [first, rest @ ..] if *first == byte => {
            *input = rest;
            true
        }
        _ => false,
    }
}

/// Takes the bytes that are in a set.
fn take_while<'a>(input: &mut &'a [u8], is: impl Fn(&u8) -> bool) -> &'a [u8] {
    let end = input.iter().position(|byte| !is(byte)).unwrap_or(input.len());
    let (taken, rest) = input.split_at(end);
    *input = rest;
    taken
}

fn key<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let key = take_while(input, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
    matches!(key, [b'a'..=b'z' | b'*', ..]).then_some(key)
}

fn parameters(input: &mut &[u8]) -> Option<()> {
    while strip(input, b';') {
        *input = spaces(input);
        key(input)?;
        if strip(input, b'=') {
            bare(input)?;
        }
    }
    Some(())
}

/// An item or an inner list.
fn item<'a>(input: &mut &'a [u8]) -> Option<Bare<'a>> {
    if !strip(input, b'(') {
        return bare(input);
    }
    loop {
        *input = spaces(input);
        if strip(input, b')') {
            return Some(Bare::Other);
        }
        bare(input)?;
        parameters(input)?;
        if !matches!(input, [b' ' | b')', ..]) {
            return None;
        }
    }
}

fn bare<'a>(input: &mut &'a [u8]) -> Option<Bare<'a>> {
    match *input {
        [b'-' | b'0'..=b'9', ..] => number(input),
        [b'"', ..] => string(input).map(Bare::String),
        [b'*' | b'A'..=b'Z' | b'a'..=b'z', ..] => {
            let is_token = |byte: &u8| crate::request::is_token_byte(byte) || matches!(byte, b':' | b'/');
            Some(Bare::Token(take_while(input, is_token)))
        }
        [b'?', value @ (b'0' | b'1'), rest @ ..] => {
            *input = rest;
            Some(Bare::Boolean(*value == b'1'))
        }
        [b':', rest @ ..] => {
            *input = rest;
            take_while(
                input,
                |byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'='),
            );
            strip(input, b':').then_some(Bare::Other)
        }
        [b'@', rest @ ..] => {
            *input = rest;
            matches!(number(input)?, Bare::Integer(_)).then_some(Bare::Other)
        }
        [b'%', rest @ ..] => {
            *input = rest;
            string(input).map(|_| Bare::Other)
        }
        _ => None,
    }
}

/// At most 15 digits; or 12, a point, and at most 3.
fn number<'a>(input: &mut &'a [u8]) -> Option<Bare<'a>> {
    let negative = strip(input, b'-');
    let whole = take_while(input, u8::is_ascii_digit);
    if whole.is_empty() || whole.len() > 15 {
        return None;
    }
    if strip(input, b'.') {
        let decimals = take_while(input, u8::is_ascii_digit);
        return (whole.len() <= 12 && (1..=3).contains(&decimals.len())).then_some(Bare::Other);
    }
    let value = whole.iter().fold(0_i64, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some(Bare::Integer(if negative { -value } else { value }))
}

fn string<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = input.strip_prefix(b"\"")?;
    let mut rest = text;
    loop {
        rest = match rest {
            [b'"', after @ ..] => {
                *input = after;
                return text.get(..text.len() - rest.len());
            }
            [b'\\', b'"' | b'\\', after @ ..] => after,
            [b' '..=b'[' | b']'..=b'~', after @ ..] => after,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Vec<(String, String)>> {
        let mut members = Vec::new();
        dictionary(line.as_bytes(), |key, value| {
            members.push((String::from_utf8_lossy(key).into_owned(), format!("{value:?}")));
        })?;
        Some(members)
    }

    #[test]
    fn dictionaries_are_read() {
        let members =
            read("a, b=1;c;d=\"e\" ,\t*f=?0, g=-12, h=(1 \"i\";j k), l=1.5, m=:aGk=:, n=@12, o=%\"p%c3\"")
                .unwrap();
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "*f", "g", "h", "l", "m", "n", "o"]);
        let values: Vec<&str> = members.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values[..4], ["Boolean(true)", "Integer(1)", "Boolean(false)", "Integer(-12)"]);
        assert!(values[4..].iter().all(|value| *value == "Other"));
        assert_eq!(read("").map(|members| members.len()), Some(0));
        let mut text = Vec::new();
        assert_eq!(
            dictionary(b"a=\"b\\\"c\\\\\"", |_, value| {
                let Bare::String(inner) = value else { panic!("{value:?}") };
                text.extend(unescaped(inner));
            }),
            Some(())
        );
        assert_eq!(text, b"b\"c\\");
    }

    #[test]
    fn one_mistake_spoils_the_line() {
        for line in [
            "a,",
            ",a",
            "a,,b",
            "a b",
            "A=1",
            "1=1",
            "a=",
            "a= 1",
            "a =1",
            "a=-",
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=1234567890123.1",
            "a=\"b",
            "a=\"b\\c\"",
            "a=\"\u{e9}\"",
            "a=?2",
            "a=:b",
            "a=(1",
            "a=(1,2)",
            "a=@1.5",
            "a;B",
            "a;b=",
            "a=&",
            "\u{e9}",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn lists_are_counted() {
        assert_eq!(members(b"\"a\", b;c=1 , (d e)"), Some(3));
        assert_eq!(members(b""), Some(0));
        assert_eq!(members(b"\"a\" \"b\""), None);
    }
}
