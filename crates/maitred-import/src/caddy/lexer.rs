//! Words of a Caddyfile: white space, quotes, backquotes, here-documents, comments, ends of lines.

use crate::report::shorten;

/// A word, or the end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// Without its quotes; `None` is the end of a line.
    pub(crate) word: Option<String>,
    /// Whether it was quoted: a quoted brace is a word.
    pub(crate) quoted: bool,
    /// From 1.
    pub(crate) line: usize,
}

/// Words of one file, at most.
const TOKENS_MAX: usize = 400_000;

/// Reads a text.
///
/// # Errors
/// What is wrong with it, and in which line.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, (String, usize)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, found: Vec::new() };
    while let Some(c) = lexer.rest.peek().copied() {
        lexer.one(c)?;
        if lexer.found.len() > TOKENS_MAX {
            return Err(("the file is too large".into(), lexer.line));
        }
    }
    lexer.end_line();
    Ok(lexer.found)
}

struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    found: Vec<Token>,
}

impl Lexer<'_> {
    fn take(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn end_line(&mut self) {
        if self.found.last().is_some_and(|token| token.word.is_some()) {
            self.found.push(Token { word: None, quoted: false, line: self.line });
        }
    }

    fn one(&mut self, c: char) -> Result<(), (String, usize)> {
        match c {
            '\n' => {
                self.end_line();
                self.take();
            }
            c if c.is_whitespace() => {
                self.take();
            }
            '#' => {
                while self.rest.peek().is_some_and(|c| *c != '\n') {
                    self.take();
                }
            }
            '"' | '`' => {
                let line = self.line;
                self.take();
                let word = self.quoted(c)?;
                self.found.push(Token { word: Some(word), quoted: true, line });
            }
            _ => {
                let line = self.line;
                let word = self.word();
                let token = match word.strip_prefix("<<").filter(|mark| is_mark(mark)) {
                    Some(mark) => Token { word: Some(self.heredoc(mark)?), quoted: true, line },
                    None if word.is_empty() => return Ok(()),
                    None => Token { word: Some(word), quoted: false, line },
                };
                self.found.push(token);
            }
        }
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<String, (String, usize)> {
        let line = self.line;
        let mut word = String::new();
        while let Some(c) = self.take() {
            match c {
                '\\' if quote == '"' && self.rest.peek() == Some(&'"') => word.extend(self.take()),
                c if c == quote => return Ok(word),
                c => word.push(c),
            }
        }
        Err((format!("the quote {quote} has no end"), line))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.peek().copied().filter(|c| !c.is_whitespace()) {
            self.take();
            if c == '\\' && matches!(self.rest.peek(), Some('\n' | '"' | '`')) {
                // A line that goes on, or a quote that is none.
                word.extend(self.take().filter(|c| *c != '\n'));
            } else {
                word.push(c);
            }
        }
        word
    }

    /// The lines up to the one that begins with the mark, without the white space in front of that.
    fn heredoc(&mut self, mark: &str) -> Result<String, (String, usize)> {
        let line = self.line;
        while self.take().is_some_and(|c| c != '\n') {}
        let mut lines: Vec<String> = Vec::new();
        loop {
            let mut text = String::new();
            while let Some(c) = self.rest.peek().copied().filter(|c| *c != '\n') {
                text.push(c);
                self.take();
                // What follows the mark are other words.
                if text.ends_with(mark) && text.trim_start() == mark {
                    let indent = text.len() - mark.len();
                    let cut = |line: &String| line.get(indent..).unwrap_or_default().to_owned();
                    return Ok(lines.iter().map(cut).collect::<Vec<_>>().join("\n"));
                }
            }
            lines.push(text);
            if self.take().is_none() {
                return Err((format!("the text <<{} has no end", shorten(mark)), line));
            }
        }
    }
}

fn is_mark(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let found = tokens(text).unwrap();
        found.into_iter().map(|token| token.word.unwrap_or("⏎".into())).collect()
    }

    #[test]
    fn words_quotes_lines_and_comments() {
        assert_eq!(words("a b # c\nd{\n"), ["a", "b", "⏎", "d{", "⏎"]);
        assert_eq!(words("a \"b \\\" c\" `d \"e\"`"), ["a", "b \" c", "d \"e\"", "⏎"]);
        assert_eq!(words("a \\\n b\n\n\nc#d"), ["a", "b", "⏎", "c#d", "⏎"]);
        assert_eq!(words("a <<END\n  x\n    y\n  END\nb"), ["a", "x\n  y", "⏎", "b", "⏎"]);
        assert_eq!(words("a <<END\n\tx\n\tEND 200 # c\nb"), ["a", "x", "200", "⏎", "b", "⏎"]);
    }

    #[test]
    fn what_has_no_end_is_said_with_its_line() {
        for (text, line) in [("a\n\"b", 2), ("`", 1), ("x\n\ny <<E\n z", 3)] {
            assert_eq!(tokens(text).unwrap_err().1, line, "{text:?}");
        }
    }
}
