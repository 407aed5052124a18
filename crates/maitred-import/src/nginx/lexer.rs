//! Words of an nginx configuration: words, quotes, braces, semicolons, comments.

/// A token, with the line that it starts in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) what: Lexeme,
    /// From 1.
    pub(crate) line: usize,
}

/// Kinds of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lexeme {
    /// A word, without its quotes.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
    /// What stands between the braces of a block of Lua, which has rules of its own.
    Foreign,
}

/// What cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// In one line.
    pub(crate) message: String,
    /// From 1.
    pub(crate) line: usize,
}

/// Reads tokens one by one.
pub(crate) struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl<'a> Lexer<'a> {
    /// At the start of a text.
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Lexer { rest: text.chars().peekable(), line: 1 }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    /// The next token.
    ///
    /// # Errors
    /// A quote has no end, or is followed by a letter.
    pub(crate) fn next(&mut self) -> Result<Option<Token>, Unreadable> {
        self.skip();
        let line = self.line;
        let token = |what| Ok(Some(Token { what, line }));
        match self.rest.peek().copied() {
            None => Ok(None),
            Some(';') => {
                self.take();
                token(Lexeme::End)
            }
            Some('{') => {
                self.take();
                token(Lexeme::Open)
            }
            Some('}') => {
                self.take();
                token(Lexeme::Close)
            }
            Some(quote @ ('"' | '\'')) => {
                self.take();
                let word = self.quoted(quote)?;
                token(Lexeme::Word(word))
            }
            Some(_) => {
                let word = self.word();
                token(Lexeme::Word(word))
            }
        }
    }

    /// White space and comments.
    fn skip(&mut self) {
        while let Some(c) = self.rest.peek().copied() {
            if c == '#' {
                while self.rest.peek().is_some_and(|c| *c != '\n') {
                    self.take();
                }
            } else if c.is_whitespace() || c == '\0' {
                self.take();
            } else {
                return;
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Unreadable> {
        let line = self.line;
        let mut word = String::new();
        while let Some(c) = self.take() {
            match c {
                '\\' => self.escaped(&mut word),
                c if c == quote => {
                    return match self.rest.peek() {
                        // nginx wants white space here as well; `"a""b"` is two words to lenient readers.
                        Some(c) if c.is_alphanumeric() => {
                            let message = format!("a quoted word is followed by `{c}`");
                            Err(Unreadable { message, line: self.line })
                        }
                        _ => Ok(word),
                    };
                }
                c => word.push(c),
            }
        }
        Err(Unreadable { message: format!("the quote {quote} has no end"), line })
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        let mut after_dollar = false;
        while let Some(c) = self.rest.peek().copied() {
            let brace = c == '{' && after_dollar;
            if c.is_whitespace() || c == ';' || (c == '{' && !brace) {
                break;
            }
            self.take();
            if c == '\\' {
                self.escaped(&mut word);
            } else {
                word.push(c);
            }
            after_dollar = c == '$';
            if brace {
                self.variable(&mut word);
            }
        }
        word
    }

    /// The rest of `${name}`.
    fn variable(&mut self, word: &mut String) {
        while let Some(c) = self.rest.peek().copied().filter(|c| !c.is_whitespace() && *c != ';') {
            self.take();
            word.push(c);
            if c == '}' {
                return;
            }
        }
    }

    /// After a backslash: `ngx_conf_read_token` knows these six, and that of a regular expression stays.
    fn escaped(&mut self, word: &mut String) {
        match self.take() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => {
                word.push('\\');
                word.push(c);
            }
            None => word.push('\\'),
        }
    }

    /// Skips a block of Lua, from behind its brace to its end; strings and comments of Lua may have braces in them.
    ///
    /// # Errors
    /// The block has no end.
    pub(crate) fn skip_foreign(&mut self) -> Result<Token, Unreadable> {
        let line = self.line;
        let mut depth = 1_usize;
        while let Some(c) = self.take() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => self.skip_string(c),
                '-' if self.rest.peek() == Some(&'-') => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.take();
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return Ok(Token { what: Lexeme::Foreign, line });
            }
        }
        Err(Unreadable { message: "the block has no end".into(), line })
    }

    fn skip_string(&mut self, quote: char) {
        while let Some(c) = self.rest.peek().copied().filter(|c| *c != '\n') {
            self.take();
            if c == '\\' {
                self.take();
            } else if c == quote {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut found = Vec::new();
        while let Some(token) = lexer.next().unwrap() {
            found.push(match token.what {
                Lexeme::Word(word) => word,
                Lexeme::End => ";".into(),
                Lexeme::Open => "{".into(),
                Lexeme::Close => "}".into(),
                Lexeme::Foreign => "…".into(),
            });
        }
        found
    }

    #[test]
    fn words_quotes_braces_semicolons_and_comments() {
        assert_eq!(words("a b;# x\nc{d;}"), ["a", "b", ";", "c", "{", "d", ";", "}"]);
        assert_eq!(words("a \"b c\" 'd;e' ;"), ["a", "b c", "d;e", ";"]);
        assert_eq!(words(r#"a "b\"c" \.php$ a\ b;"#), ["a", "b\"c", r"\.php$", r"a\ b", ";"]);
        assert_eq!(words("x ${host}y a#b;"), ["x", "${host}y", "a#b", ";"]);
        assert_eq!(words("~ ^/a}b {"), ["~", "^/a}b", "{"]);
        assert_eq!(words("x \"a\nb\"; y"), ["x", "a\nb", ";", "y"]);
    }

    #[test]
    fn a_quote_without_an_end_is_said_with_its_line() {
        let mut lexer = Lexer::new("a;\n\"b");
        assert!(lexer.next().is_ok() && lexer.next().is_ok());
        assert_eq!(lexer.next().unwrap_err().line, 2);
    }
}
