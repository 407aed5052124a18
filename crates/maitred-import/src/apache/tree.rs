//! The syntax of httpd: a directive in each line, and sections `<Name …>` to `</Name>`.

use std::rc::Rc;

use crate::report::Place;
use crate::shared::Said;

/// Sections within one another, at most.
const DEPTH_MAX: usize = 48;
/// Lines of a file that are directives, at most.
const LINES_MAX: usize = 100_000;

/// A directive, or a section with what is in it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Directive {
    /// The name, in small letters.
    pub(crate) name: String,
    /// The words behind it.
    pub(crate) args: Vec<String>,
    /// What is in a section.
    pub(crate) block: Option<Vec<Directive>>,
    /// Where it stands.
    pub(crate) place: Place,
    /// The line as it stands there.
    pub(crate) shown: String,
}

impl Directive {
    /// A word behind the name; empty, if there is none.
    pub(crate) fn arg(&self, at: usize) -> &str {
        self.args.get(at).map(String::as_str).unwrap_or_default()
    }

    /// What is in a section.
    pub(crate) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Whether it has one of these names.
    pub(crate) fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }

    /// All words behind the name.
    pub(crate) fn text(&self) -> String {
        self.args.join(" ")
    }

    /// Whether the first word is `On`.
    pub(crate) fn is_on(&self) -> bool {
        self.arg(0).eq_ignore_ascii_case("on")
    }
}

impl Said for Directive {
    fn said(&self) -> (&Place, String) {
        (&self.place, self.shown.clone())
    }
}

/// Lines with what continues them: a `\` at the end of a line.
pub(crate) fn lines(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let (number, mut whole) = before.take().unwrap_or((at + 1, String::new()));
        match line.strip_suffix('\\') {
            Some(part) if !part.ends_with('\\') => {
                whole.push_str(part);
                before = Some((number, whole));
            }
            _ => {
                whole.push_str(line);
                found.push((number, whole));
            }
        }
    }
    found.extend(before);
    found.retain(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    found
}

/// The words of a line: in quotes of either kind, `\` keeps a quote or a `\` from its meaning.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let quote = ['"', '\''].contains(&first).then_some(first);
        let mut word = String::new();
        let mut letters = rest.char_indices().skip(usize::from(quote.is_some())).peekable();
        let mut end = rest.len();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            if letter == '\\' && (next == Some('\\') || (quote.is_some() && next == quote)) {
                word.extend(next);
                letters.next();
            } else if quote == Some(letter) || (quote.is_none() && letter.is_whitespace()) {
                end = at + letter.len_utf8();
                break;
            } else {
                word.push(letter);
            }
        }
        found.push(word);
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    found
}

/// The directives of a text.
///
/// # Errors
/// What is wrong with it, and the line.
pub(crate) fn parse(file: &Rc<str>, text: &str) -> Result<Vec<Directive>, (String, usize)> {
    let lines = lines(text);
    if lines.len() > LINES_MAX {
        return Err(("the file has too many lines".into(), LINES_MAX));
    }
    // What is open: the sections, and what was in each before the one within it.
    let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut own: Vec<Directive> = Vec::new();
    for (line, text) in lines {
        let trimmed = text.trim();
        let place = Place { file: Rc::clone(file), line };
        if let Some(end) = trimmed.strip_prefix("</") {
            let name = end.trim_end_matches('>').trim().to_ascii_lowercase();
            let Some((mut section, outer)) = open.pop().filter(|(section, _)| section.name == name) else {
                return Err((format!("`</{name}>` closes no section"), line));
            };
            section.block = Some(std::mem::replace(&mut own, outer));
            own.push(section);
        } else if let Some(begin) = trimmed.strip_prefix('<') {
            if open.len() >= DEPTH_MAX {
                return Err(("sections are nested too deeply".into(), line));
            }
            let begin = begin.trim_end().strip_suffix('>').unwrap_or(begin);
            open.push((directive(begin, trimmed, place), std::mem::take(&mut own)));
        } else {
            own.push(directive(trimmed, trimmed, place));
        }
    }
    match open.pop() {
        Some((section, _)) => {
            Err((format!("the section `{}` has no end", section.shown), section.place.line))
        }
        None => Ok(own),
    }
}

fn directive(line: &str, shown: &str, place: Place) -> Directive {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.to_ascii_lowercase();
    let raw = ["if", "elseif"].contains(&name.as_str());
    let args = if raw { vec![unquoted(rest).to_owned()] } else { words(rest) };
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    Directive { name, args, block: None, place, shown }
}

/// An expression may stand in quotes as a whole.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_httpd() {
        assert_eq!(
            words(r#"a "b c" 'd "e"' "f \" g" \.php$ \\x"#),
            ["a", "b c", "d \"e\"", "f \" g", r"\.php$", r"\x"]
        );
        assert_eq!(words("\"no end"), ["no end"]);
    }

    #[test]
    fn lines_go_on_and_sections_nest() {
        let read =
            parse(&"x".into(), "# no\n<Directory /a>\n Require \\\n  all granted\n</DIRECTORY>\nB 1\n")
                .unwrap();
        assert_eq!((read[0].name.as_str(), read[0].arg(0), read[1].name.as_str()), ("directory", "/a", "b"));
        assert_eq!(read[0].inside()[0].args, ["all", "granted"]);
        assert_eq!(read[0].inside()[0].place.line, 3);
        assert!(parse(&"x".into(), "<A>\n").is_err() && parse(&"x".into(), "<A>\n</B>\n").is_err());
        assert!(parse(&"x".into(), &"<A>\n".repeat(5000)).is_err());
    }
}
