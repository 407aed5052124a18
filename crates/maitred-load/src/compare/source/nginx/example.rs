//! A text that a regular expression matches.
//!
//! nginx's expressions are PCRE's, with what no other library reads, so that this reads just enough of them: literals, classes,
//! groups, alternatives, repetitions. Assertions match the empty text here. What comes of an odd expression may not match it;
//! the request is the same for both servers all the same.

use std::iter::Peekable;
use std::str::Chars;

/// Groups within one another, and characters of an example.
const DEPTH_MAX: usize = 50;
const CHARS_MAX: usize = 300;
/// Repetitions that are carried out.
const REPEATED_MAX: usize = 20;
/// What a class is tried with, in this order.
const CANDIDATES: &str = "x5X-_.a/~ ";

/// Up to `count` different examples: the second one takes the second alternatives, and so on.
pub(super) fn examples(pattern: &str, count: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for choice in 0..count {
        let mut parser = Parser { rest: pattern.chars().peekable(), choice, depth: 0 };
        let example: String = parser.alternatives().chars().take(CHARS_MAX).collect();
        if !found.contains(&example) {
            found.push(example);
        }
    }
    found
}

struct Parser<'p> {
    rest: Peekable<Chars<'p>>,
    choice: usize,
    depth: usize,
}

impl Parser<'_> {
    /// Alternatives up to the end of a group, or of the pattern.
    fn alternatives(&mut self) -> String {
        let mut all = vec![self.sequence()];
        while self.rest.next_if_eq(&'|').is_some() {
            all.push(self.sequence());
        }
        let chosen = self.choice % all.len().max(1);
        all.into_iter().nth(chosen).unwrap_or_default()
    }

    fn sequence(&mut self) -> String {
        let mut out = String::new();
        while let Some(char) = self.rest.next_if(|char| !matches!(char, '|' | ')')) {
            let atom = self.atom(char);
            let times = self.times();
            for _ in 0..times {
                if out.len() < CHARS_MAX {
                    out.push_str(&atom);
                }
            }
        }
        out
    }

    fn atom(&mut self, first: char) -> String {
        match first {
            '^' | '$' => String::new(),
            '.' => "x".to_owned(),
            '(' => self.group(),
            '[' => self.class().into_iter().collect(),
            '\\' => self.escape().into_iter().collect(),
            char => char.to_string(),
        }
    }

    fn group(&mut self) -> String {
        let mut is_assertion = false;
        if self.rest.next_if_eq(&'?').is_some() {
            match self.rest.next() {
                Some('=' | '!' | '#') => is_assertion = true,
                Some('<') => match self.rest.peek() {
                    Some('=' | '!') => is_assertion = true,
                    _ => self.skip_to('>'),
                },
                Some('P') => self.skip_to('>'),
                Some('\'') => self.skip_to('\''),
                Some(':' | '>' | '|') => {}
                // Flags, such as (?i) for the rest, or (?i:…) for the group.
                _ => {
                    while let Some(char) = self.rest.next_if(|char| *char != ')') {
                        if char == ':' {
                            break;
                        }
                    }
                }
            }
        }
        self.depth += 1;
        // Deeper ones are read as if they were ended here: no expression of a configuration has so many.
        let inside = if self.depth > DEPTH_MAX { String::new() } else { self.alternatives() };
        self.depth -= 1;
        self.rest.next_if_eq(&')');
        if is_assertion { String::new() } else { inside }
    }

    fn skip_to(&mut self, end: char) {
        for char in self.rest.by_ref() {
            if char == end {
                break;
            }
        }
    }

    /// A character outside a class, behind a backslash.
    fn escape(&mut self) -> Option<char> {
        match self.rest.next()? {
            'd' => Some('5'),
            'w' => Some('w'),
            's' => Some(' '),
            'D' | 'S' | 'N' => Some('x'),
            'W' => Some('-'),
            'b' | 'B' | 'A' | 'z' | 'Z' | 'G' | 'Q' | 'E' | 'K' | '1'..='9' => None,
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'x' => {
                let digits: String =
                    (0..2).filter_map(|_| self.rest.next_if(char::is_ascii_hexdigit)).collect();
                u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)
            }
            char => Some(char),
        }
    }

    /// A character of a class.
    fn class(&mut self) -> Option<char> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut is_first = true;
        while let Some(char) = self.rest.next() {
            if char == ']' && !is_first {
                break;
            }
            is_first = false;
            let start = match char {
                '[' if self.rest.peek() == Some(&':') => {
                    let name: String = self.rest.by_ref().skip(1).take_while(|char| *char != ':').collect();
                    self.rest.next_if_eq(&']');
                    ranges.extend(named(&name));
                    continue;
                }
                '\\' => match self.rest.peek() {
                    Some('w') => {
                        self.rest.next();
                        ranges.extend([('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]);
                        continue;
                    }
                    Some('d') => {
                        self.rest.next();
                        ranges.push(('0', '9'));
                        continue;
                    }
                    _ => self.escape().unwrap_or('\\'),
                },
                char => char,
            };
            let end = match self.rest.next_if_eq(&'-') {
                None => start,
                Some(_) => match self.rest.peek() {
                    Some(']') | None => {
                        ranges.push(('-', '-'));
                        start
                    }
                    Some(_) => match self.rest.next() {
                        Some('\\') => self.escape().unwrap_or(start),
                        end => end.unwrap_or(start),
                    },
                },
            };
            ranges.push((start, end));
        }
        let has = |char: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&char));
        let candidate = CANDIDATES.chars().find(|char| has(*char) != is_negated);
        candidate.or_else(|| ranges.first().filter(|_| !is_negated).map(|(start, _)| *start))
    }

    /// How often the atom before is repeated.
    fn times(&mut self) -> usize {
        let times = match self.rest.peek() {
            Some('*' | '+' | '?') => {
                self.rest.next();
                1
            }
            Some('{') => {
                let mut ahead = self.rest.clone();
                ahead.next();
                let text: String = ahead.by_ref().take_while(|char| *char != '}').collect();
                let (least, most) = text.split_once(',').unwrap_or((&text, &text));
                let Ok(least) = least.parse::<usize>() else { return 1 };
                self.rest = ahead;
                if most == "0" { 0 } else { least.clamp(1, REPEATED_MAX) }
            }
            _ => return 1,
        };
        // Lazy and possessive repetitions match the same.
        self.rest.next_if(|char| matches!(char, '?' | '+'));
        times
    }
}

fn named(name: &str) -> Vec<(char, char)> {
    match name {
        "digit" => vec![('0', '9')],
        "xdigit" => vec![('0', '9'), ('a', 'f'), ('A', 'F')],
        "alpha" => vec![('a', 'z'), ('A', 'Z')],
        "lower" => vec![('a', 'z')],
        "upper" => vec![('A', 'Z')],
        "alnum" | "word" => vec![('a', 'z'), ('A', 'Z'), ('0', '9')],
        "space" | "blank" => vec![(' ', ' ')],
        _ => vec![('!', '~')],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_match() {
        for pattern in [
            r"\.php$",
            r"^/a/(b|c)/\d+$",
            r"\.(jpe?g|png|css)$",
            r"^/[a-z0-9_-]+/[^/.]+$",
            r"^/(?<user>\w+)/(?P<page>.*)$",
            r"^(?:/x){2,3}$",
            r"(?i)^/API/v[12]",
            r"^/[[:alpha:]][[:digit:]]{4}/?$",
            r"^/a{3}\x41\-b$",
            r"^/[]x]$",
            r"^/[\w.]+\s?$",
            r"/a{b",
            "",
        ] {
            let found = examples(pattern, 3);
            if pattern.contains("/a{b") {
                assert_eq!(found, ["/a{b"]);
                continue;
            }
            let regex = regex::Regex::new(pattern.trim_start_matches("(?i)")).unwrap();
            let regex = if pattern.starts_with("(?i)") { regex::Regex::new(pattern).unwrap() } else { regex };
            assert!(found.iter().all(|example| regex.is_match(example)), "{pattern}: {found:?}");
        }
        assert_eq!(examples(r"\.(jpe?g|png|css)$", 5), [".jpeg", ".png", ".css"]);
    }

    #[test]
    fn what_other_libraries_do_not_read_is_passed_over() {
        assert_eq!(examples(r"^/(?!api)x(?=y)y(?<=y)(?<!z)$", 1), ["/xy"]);
        assert_eq!(examples(r"^/(?>a+)b++c*?\1$", 1), ["/abc"]);
        assert_eq!(examples(r"^/(?#no)a$", 1), ["/a"]);
    }

    proptest! {
        #[test]
        fn nothing_panics_or_grows(pattern in "[a-c()|*+?{}\\[\\]\\\\^$.,0-9:<>=!-]{0,80}") {
            prop_assert!(examples(&pattern, 3).iter().all(|example| example.chars().count() <= CHARS_MAX));
        }
    }

    #[test]
    fn deep_and_long_ones_are_bounded() {
        let deep = "(".repeat(10_000);
        let repeated = format!("{}a{}", "(".repeat(40), "){20}".repeat(40));
        for pattern in [deep, repeated, "a".repeat(10_000)] {
            assert!(examples(&pattern, 1)[0].len() <= CHARS_MAX);
        }
    }
}
