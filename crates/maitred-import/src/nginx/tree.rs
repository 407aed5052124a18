//! Directives of an nginx configuration, with their places.

use std::rc::Rc;

use super::lexer::{Lexeme, Lexer, Unreadable};
use crate::report::Place;
use crate::shared::Said;

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The name of the directive.
    pub(crate) name: String,
    /// What follows.
    pub(crate) args: Vec<String>,
    /// What stands between its braces.
    pub(crate) block: Option<Vec<Directive>>,
    /// Where its name stands.
    pub(crate) place: Place,
}

impl Directive {
    /// An argument; empty if it is not there.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives between its braces.
    pub(crate) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> String {
        let mut text = self.name.clone();
        for arg in &self.args {
            text.push(' ');
            text.push_str(arg);
        }
        text
    }
}

impl Said for Directive {
    fn said(&self) -> (&Place, String) {
        (&self.place, self.shown())
    }
}

/// Blocks within blocks, at most. nginx has a bound of its own for locations; a generated file has no ten.
const DEPTH_MAX: usize = 48;
/// Directives of one file, at most.
const DIRECTIVES_MAX: usize = 200_000;

/// Reads a text.
///
/// # Errors
/// What is wrong with it, and where.
pub(crate) fn parse(file: &Rc<str>, text: &str) -> Result<Vec<Directive>, Unreadable> {
    let mut lexer = Lexer::new(text);
    // The directives of each open block, and the directive that opened it.
    let mut open: Vec<(Vec<Directive>, Option<Directive>)> = vec![(Vec::new(), None)];
    let mut words: Vec<(String, usize)> = Vec::new();
    let mut count = 0;
    while let Some(token) = lexer.next()? {
        let unreadable = |message: &str| Unreadable { message: message.to_owned(), line: token.line };
        match token.what {
            Lexeme::Word(word) => words.push((word, token.line)),
            Lexeme::End | Lexeme::Foreign => {
                if let Some(directive) = directive(file, &mut words) {
                    push(&mut open, directive);
                }
            }
            Lexeme::Open => {
                let Some(mut opened) = directive(file, &mut words) else {
                    return Err(unreadable("a block has no name"));
                };
                if opened.name.ends_with("_by_lua_block") {
                    lexer.skip_foreign()?;
                    opened.block = Some(Vec::new());
                    push(&mut open, opened);
                } else if open.len() > DEPTH_MAX {
                    return Err(unreadable(&format!("more than {DEPTH_MAX} blocks within one another")));
                } else {
                    open.push((Vec::new(), Some(opened)));
                }
            }
            Lexeme::Close => {
                if !words.is_empty() {
                    return Err(unreadable("a `;` is missing before `}`"));
                }
                let (inside, Some(mut opened)) = open.pop().unwrap_or_default() else {
                    return Err(unreadable("there is a `}` too much"));
                };
                opened.block = Some(inside);
                push(&mut open, opened);
            }
        }
        count += 1;
        if count > DIRECTIVES_MAX * 8 {
            return Err(unreadable("the file is too large"));
        }
    }
    end(open, &words)
}

fn end(
    mut open: Vec<(Vec<Directive>, Option<Directive>)>,
    words: &[(String, usize)],
) -> Result<Vec<Directive>, Unreadable> {
    if let Some((word, line)) = words.first() {
        let message = format!("the file ends within the directive `{}`", crate::report::shorten(word));
        return Err(Unreadable { message, line: *line });
    }
    match open.pop() {
        Some((_, Some(opened))) => {
            let message = format!("the block `{}` has no end", crate::report::shorten(&opened.shown()));
            Err(Unreadable { message, line: opened.place.line })
        }
        Some((directives, None)) => Ok(directives),
        None => Ok(Vec::new()),
    }
}

fn push(open: &mut [(Vec<Directive>, Option<Directive>)], directive: Directive) {
    if let Some((inside, _)) = open.last_mut() {
        inside.push(directive);
    }
}

fn directive(file: &Rc<str>, words: &mut Vec<(String, usize)>) -> Option<Directive> {
    let mut words = std::mem::take(words).into_iter();
    let (name, line) = words.next()?;
    let args = words.map(|(word, _)| word).collect();
    Some(Directive { name, args, block: None, place: Place { file: file.clone(), line } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Directive>, Unreadable> {
        parse(&"x".into(), text)
    }

    #[test]
    fn blocks_and_directives() {
        let found = parsed("user a;\nhttp {\n server { listen 80; }\n}\n").unwrap();
        assert_eq!(found.len(), 2);
        let server = &found[1].inside()[0];
        assert_eq!((server.place.line, server.inside()[0].shown().as_str()), (3, "listen 80"));
    }

    #[test]
    fn lua_is_skipped_with_its_braces() {
        let found =
            parsed("content_by_lua_block { local t = {a = \"}\"} -- }\n return t }\nlisten 80;").unwrap();
        assert_eq!((found.len(), found[1].place.line), (2, 3));
    }

    #[test]
    fn what_has_no_end_or_no_beginning_is_said_with_its_line() {
        for (text, line) in [("a {", 1), ("a\nb", 1), ("a;\n}", 2), ("{", 1), ("a { b }", 1), ("\n'", 2)] {
            assert_eq!(parsed(text).unwrap_err().line, line, "{text:?}");
        }
        assert!(parsed(&"a {".repeat(100_000)).unwrap_err().message.contains("within one another"));
    }
}
