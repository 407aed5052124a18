//! Directives and blocks of a Caddyfile, with what it imports.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::lexer::{Token, tokens};
use crate::files;
use crate::report::{Kind, Place, Report};
use crate::shared::Said;

/// A directive, or a site with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The words of the directive; the first one is its name.
    pub(crate) words: Vec<String>,
    /// What stands between its braces.
    pub(crate) block: Option<Vec<Directive>>,
    /// Where it stands.
    pub(crate) place: Place,
}

impl Directive {
    /// The name of the directive.
    pub(crate) fn name(&self) -> &str {
        self.word(0)
    }

    /// A word; empty if it is not there.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// What follows the name.
    pub(crate) fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The directives between its braces.
    pub(crate) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> String {
        self.words.join(" ")
    }
}

impl Said for Directive {
    fn said(&self) -> (&Place, String) {
        (&self.place, self.shown())
    }
}

/// Blocks within blocks, imports within imports, and directives of all, at most.
const DEPTH_MAX: usize = 48;
const IMPORTS_MAX: usize = 12;
const DIRECTIVES_MAX: usize = 100_000;

/// Reads the blocks of a text.
///
/// # Errors
/// What is wrong with it, and in which line.
pub(crate) fn parse(file: &Rc<str>, text: &str) -> Result<Vec<Directive>, (String, usize)> {
    let tokens = tokens(text)?;
    let mut open: Vec<(Vec<Directive>, Directive)> = Vec::new();
    let mut here: Vec<Directive> = Vec::new();
    let mut line: Vec<Token> = Vec::new();
    for token in tokens {
        if token.word.is_some() {
            line.push(token);
            continue;
        }
        let words = std::mem::take(&mut line);
        let Some(first) = words.first().map(|token| token.line) else { continue };
        let is = |token: Option<&Token>, sign: &str| {
            token.is_some_and(|token| !token.quoted && token.word.as_deref() == Some(sign))
        };
        let opens = is(words.last(), "{");
        let text: Vec<String> = words.iter().filter_map(|token| token.word.clone()).collect();
        let place = Place { file: file.clone(), line: first };
        if is(words.first(), "}") {
            let Some((outer, mut opened)) = open.pop() else {
                return Err(("there is a `}` too much".into(), first));
            };
            opened.block = Some(std::mem::replace(&mut here, outer));
            here.push(opened);
            if words.len() > 1 {
                return Err(("a line ends behind `}`".into(), first));
            }
        } else if opens {
            if open.len() >= DEPTH_MAX {
                return Err((format!("more than {DEPTH_MAX} blocks within one another"), first));
            }
            let words = text.split_last().map(|(_, words)| words.to_vec()).unwrap_or_default();
            open.push((std::mem::take(&mut here), Directive { words, block: None, place }));
        } else {
            here.push(one_line(text, place));
        }
    }
    match open.pop() {
        Some((_, opened)) => {
            let shown = crate::report::shorten(&opened.shown());
            Err((format!("the block `{shown}` has no end"), opened.place.line))
        }
        None => Ok(here),
    }
}

/// `name { a b }` in one line is a block of one directive.
fn one_line(words: Vec<String>, place: Place) -> Directive {
    let at = words.iter().position(|word| word == "{");
    match (at, words.last().is_some_and(|word| word == "}")) {
        (Some(at), true) => {
            let inside = words[at + 1..words.len() - 1].to_vec();
            let inside = match inside.is_empty() {
                true => Vec::new(),
                false => vec![Directive { words: inside, block: None, place: place.clone() }],
            };
            Directive { words: words[..at].to_vec(), block: Some(inside), place }
        }
        _ => Directive { words, block: None, place },
    }
}

/// Reads files with what they import.
pub(crate) struct Loader<'a> {
    root: Option<&'a Path>,
    snippets: Vec<(String, Vec<Directive>)>,
    count: usize,
    /// Imports that are being read.
    nested: usize,
}

impl<'a> Loader<'a> {
    /// Absolute paths are looked up below `root`; without one, texts alone are read.
    pub(crate) fn new(root: Option<&'a Path>) -> Loader<'a> {
        Loader { root, snippets: Vec::new(), count: 0, nested: 0 }
    }

    /// The directives of a text, with what it imports in its place.
    pub(crate) fn expand(
        &mut self,
        directives: Vec<Directive>,
        base: Option<&Path>,
        depth: usize,
        report: &mut Report,
    ) -> Vec<Directive> {
        let mut all = Vec::new();
        for mut directive in directives {
            self.count += 1;
            if self.count > DIRECTIVES_MAX {
                report.say(&directive.place, &directive.shown(), Kind::NotPossible, "it is too much");
                return all;
            }
            let name = directive.name().to_owned();
            let snippet = name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
            if let (Some(snippet), 0) = (snippet, depth) {
                report.say(&directive.place, &directive.shown(), Kind::Translated, "where it is imported");
                self.snippets.push((snippet.to_owned(), directive.block.take().unwrap_or_default()));
            } else if name == "import" {
                all.extend(self.imported(&directive, base, depth, report));
            } else {
                directive.block = directive.block.map(|inside| self.expand(inside, base, depth + 1, report));
                all.push(directive);
            }
        }
        all
    }

    fn imported(
        &mut self,
        directive: &Directive,
        base: Option<&Path>,
        depth: usize,
        report: &mut Report,
    ) -> Vec<Directive> {
        let shown = directive.shown();
        let mut say = |kind, why: &str| report.say(&directive.place, &shown, kind, why);
        if self.nested >= IMPORTS_MAX {
            say(Kind::NotPossible, "too many imports within one another");
            return Vec::new();
        }
        let args = directive.args().get(1..).unwrap_or_default();
        let snippet = self.snippets.iter().find(|(name, _)| name == directive.word(1));
        if let Some((_, inside)) = snippet.cloned() {
            say(Kind::Translated, "");
            return self.nest(inside, (args, directive.inside()), base, depth + 1, report);
        }
        let Some(base) = base else {
            say(Kind::NotPossible, "there is no such file: what it says is not in the output");
            return Vec::new();
        };
        let path = Path::new(directive.word(1));
        let pattern = if path.is_absolute() { files::below(self.root, path) } else { base.join(path) };
        let found = self.inside(files::matching(&pattern));
        if found.is_empty() {
            match directive.word(1).contains(['*', '?', '[']) {
                true => say(Kind::NotNeeded, "no file matches, so that nothing is imported"),
                false => say(Kind::NotPossible, "there is no such file: what it says is not in the output"),
            }
            return Vec::new();
        }
        say(Kind::Translated, "");
        let mut all = Vec::new();
        for file in found {
            let name: Rc<str> = file.display().to_string().into();
            let text = files::read(&file).map_err(|error| error.to_string());
            let parsed = text.and_then(|text| {
                report.read(&name, &text);
                read(&name, &text, report).map_err(|(why, line)| format!("line {line}: {why}"))
            });
            match parsed {
                Ok(directives) => {
                    let base = file.parent().unwrap_or(base).to_owned();
                    all.extend(self.nest(directives, (args, directive.inside()), Some(&base), depth, report));
                }
                Err(why) => {
                    let why = format!("{name} cannot be read: {why}");
                    report.say(&directive.place, &shown, Kind::NotPossible, why);
                }
            }
        }
        all
    }

    /// What is imported, with its arguments and its blocks filled in.
    fn nest(
        &mut self,
        inside: Vec<Directive>,
        (args, block): (&[String], &[Directive]),
        base: Option<&Path>,
        depth: usize,
        report: &mut Report,
    ) -> Vec<Directive> {
        let filled = inside.into_iter().flat_map(|directive| self.filled(directive, args, block)).collect();
        self.nested += 1;
        let all = self.expand(filled, base, depth, report);
        self.nested -= 1;
        all
    }

    /// A directive with `{args[0]}`, `{args.0}`, `{block}` and `{blocks.NAME}` filled in.
    fn filled(&mut self, directive: Directive, args: &[String], block: &[Directive]) -> Vec<Directive> {
        if let ([only], None) = (directive.words.as_slice(), &directive.block) {
            let named = only.strip_prefix("{blocks.").and_then(|rest| rest.strip_suffix('}'));
            let found = match (only == "{block}", named) {
                (true, _) => Some(block),
                (_, Some(name)) => {
                    Some(block.iter().find(|one| one.name() == name).map_or(&[][..], Directive::inside))
                }
                _ => None,
            };
            if let Some(found) = found {
                self.count += found.len();
                return if self.count < DIRECTIVES_MAX { found.to_vec() } else { Vec::new() };
            }
        }
        let mut words = Vec::new();
        for word in directive.words {
            // What is filled in counts, so that arguments of arguments do not grow without bound.
            self.count += word.len() / 64;
            let from = word.strip_prefix("{args[").and_then(|rest| rest.strip_suffix(":]}"));
            match (from.map(|from| from.parse().unwrap_or(0)), word.as_str()) {
                (Some(from), _) => words.extend_from_slice(args.get(from..).unwrap_or_default()),
                (None, text) if text.contains("{args") && text.len() < 512 && self.count < DIRECTIVES_MAX => {
                    words.push(with_args(text, args));
                }
                (None, _) => words.push(word),
            }
        }
        let inside = directive
            .block
            .map(|inside| inside.into_iter().flat_map(|one| self.filled(one, args, block)).collect());
        vec![Directive { words, block: inside, place: directive.place }]
    }

    /// Files, none of which a link leads out of the root to.
    fn inside(&self, mut found: Vec<PathBuf>) -> Vec<PathBuf> {
        found.retain(|path| path.is_file());
        if let Some(root) = self.root.map(|root| root.canonicalize().unwrap_or_else(|_| root.to_owned())) {
            found.retain(|path| path.canonicalize().is_ok_and(|path| path.starts_with(&root)));
        }
        found
    }
}

/// A variable of the environment that is not set: its line, as it stands there, and whether it has a default.
type Unset = (usize, String, bool);

/// The text with what `{$NAME}` and `{$NAME:default}` stand for, as this process has them; and those that are not set. One
/// without a default stays.
pub(crate) fn with_environment(
    text: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> (String, Vec<Unset>) {
    let (mut out, mut unset, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once("{$") {
        out.push_str(before);
        let Some((inside, behind)) = after.split_once('}').filter(|(inside, _)| !inside.contains('\n'))
        else {
            out.push_str("{$");
            rest = after;
            continue;
        };
        let (name, default) =
            inside.split_once(':').map_or((inside, None), |(name, default)| (name, Some(default)));
        let shown = format!("{{${inside}}}");
        let value = environment(name);
        let line = out.rsplit('\n').next().unwrap_or_default();
        let in_comment = line.starts_with('#') || line.contains(" #") || line.contains("\t#");
        if value.is_none() && !in_comment {
            unset.push((1 + out.matches('\n').count(), shown.clone(), default.is_some()));
        }
        out.push_str(value.as_deref().or(default).unwrap_or(&shown));
        rest = behind;
    }
    (out + rest, unset)
}

/// Reads the directives of a file, after its variables of the environment.
///
/// # Errors
/// What is wrong with it, and in which line.
pub(crate) fn read(
    file: &Rc<str>,
    text: &str,
    report: &mut Report,
) -> Result<Vec<Directive>, (String, usize)> {
    let variable = |name: &str| std::env::var(name).ok();
    let (text, unset) = with_environment(text, variable);
    for (line, shown, has_default) in unset {
        let place = Place { file: Rc::clone(file), line };
        let why = match has_default {
            true => "the variable is not set where the import runs: its default is in the output",
            false => {
                "the variable is not set where the import runs: where the output has it, the server takes its own"
            }
        };
        report.say(&place, &shown, Kind::Choice, why);
    }
    parse(file, &text)
}

/// Longest argument that is filled in, in bytes.
const ARG_MAX: usize = 256;

fn with_args(text: &str, args: &[String]) -> String {
    let mut text = text.to_owned();
    for (number, arg) in args.iter().enumerate().take(16).filter(|(_, arg)| arg.len() <= ARG_MAX) {
        if text.len() < 4096 {
            text =
                text.replace(&format!("{{args[{number}]}}"), arg).replace(&format!("{{args.{number}}}"), arg);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lines_and_snippets() {
        let text =
            "(log) {\n log {args[0]}\n}\nexample.com {\n import log a\n handle /x { respond 200 }\n}\n";
        let mut report = Report::default();
        let found = Loader::new(None).expand(parse(&"x".into(), text).unwrap(), None, 0, &mut report);
        assert_eq!(found.len(), 1);
        let shown: Vec<String> = found[0].inside().iter().map(Directive::shown).collect();
        assert_eq!(shown, ["log a", "handle /x"]);
        assert_eq!(found[0].inside()[1].inside()[0].shown(), "respond 200");
        for (text, line) in [("a {\n", 1), ("a\n}", 2)] {
            assert_eq!(parse(&"x".into(), text).unwrap_err().1, line);
        }
    }

    #[test]
    fn blocks_and_variables_are_filled_in() {
        let text = "(a) {\n b {\n  {block}\n }\n c {\n  {blocks.x}\n }\n}\nsite {\n import a {\n  x {\n   y\n  }\n }\n}\n";
        let mut report = Report::default();
        let found = Loader::new(None).expand(parse(&"x".into(), text).unwrap(), None, 0, &mut report);
        let [b, c] = found[0].inside() else { panic!("{found:?}") };
        assert_eq!((b.inside()[0].shown(), c.inside()[0].shown()), ("x".to_owned(), "y".to_owned()));
        let set = |name: &str| (name == "SET").then(|| "one".to_owned());
        let (text, unset) = with_environment("{$SET:x} {$UNSET:two}\n{$NONE} {x} # {$NONE}", set);
        assert_eq!(text, "one two\n{$NONE} {x} # {$NONE}");
        assert_eq!(unset, [(1, "{$UNSET:two}".to_owned(), true), (2, "{$NONE}".to_owned(), false)]);
    }

    #[test]
    fn a_snippet_that_imports_itself_ends() {
        let text = "(a) {\n import a\n import a\n}\nx {\n import a\n}\n";
        let mut report = Report::default();
        Loader::new(None).expand(parse(&"x".into(), text).unwrap(), None, 0, &mut report);
        assert_eq!(report.verdict(), crate::Verdict::Incomplete);
    }
}
