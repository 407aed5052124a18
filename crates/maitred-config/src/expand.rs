//! `${NAME}`, `${NAME:-default}` and `${file:/path}` in strings of a configuration.
//!
//! A value keeps its place in the file. What comes out is not looked at again: a secret may have `${` in it.

use super::disk::unreadable;
use super::finding::{Context, Span};
use super::reader::shorten;
use super::source::Source;

/// What all placeholders of a configuration may become together: they are small, and a file that names a large one thousands of
/// times is a mistake.
const EXPANDED_BYTES_MAX: usize = 4 << 20;
/// Placeholders in the default or the path of another one.
const DEPTH_MAX: usize = 4;

/// Below these keys a value can be a secret: nothing shows it, neither a log, nor the status, nor the list of processes.
const SECRET_KEYS: [&str; 10] =
    ["secret", "env", "set", "add", "if_absent", "header", "cookie", "query", "users", "params"];

const FORMS: &str = "it takes `${NAME}`, `${NAME:-default}` or `${file:/path}`; `$${` stands for `${` itself";

/// What a string of a file stands for; `None` if it has no placeholder. `keys` leads to it from the top.
pub(super) fn string(
    cx: &Context<'_>,
    source: &Source,
    (text, span): (&str, &Span),
    keys: &[String],
) -> Option<String> {
    if !text.contains("${") {
        return None;
    }
    let mut expansion = Expansion { cx, source, span, keys, secrets: Vec::new(), failed: false };
    let expanded = expansion.text(text, 0);
    let (secrets, failed) = (expansion.secrets, expansion.failed);
    let mut all = cx.expanded.borrow_mut();
    // Imports are read more than once.
    if !all.is_known(span) {
        let too_much = all.count(expanded.len()) > EXPANDED_BYTES_MAX;
        all.add(span.clone(), secrets, failed || too_much);
        drop(all);
        if too_much {
            let message =
                format!("the placeholders stand for more than {} MiB together", EXPANDED_BYTES_MAX >> 20);
            cx.placeholder(span, message, None);
            return Some(String::new());
        }
    }
    Some(expanded)
}

struct Expansion<'e> {
    cx: &'e Context<'e>,
    source: &'e Source,
    span: &'e Span,
    keys: &'e [String],
    secrets: Vec<String>,
    failed: bool,
}

impl Expansion<'_> {
    fn text(&mut self, text: &str, depth: usize) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = behind;
                continue;
            }
            out.push_str(before);
            let Some(end) = closing(behind) else {
                self.wrong("${", "`${` is not closed".into(), FORMS.into());
                return out;
            };
            let (inside, after) = behind.split_at(end);
            match depth < DEPTH_MAX {
                true => out.push_str(&self.placeholder(inside, depth)),
                false => self.wrong("${", "placeholders are nested too deeply".into(), FORMS.into()),
            }
            rest = after.get(1..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    /// What stands for `${inside}`.
    fn placeholder(&mut self, inside: &str, depth: usize) -> String {
        if let Some(path) = inside.strip_prefix("file:") {
            return self.secret(inside, path, depth);
        }
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let written = format!("${{{inside}}}");
        if !is_name(name) {
            let message = format!("`{}` is not a placeholder", shorten(&written));
            self.wrong(&written, message, FORMS.into());
            return String::new();
        }
        match (self.cx.lookup.variable(name), default) {
            (Some(Ok(value)), None) => value,
            (Some(Ok(value)), Some(_)) if !value.is_empty() => value,
            (Some(Ok(_)) | None, Some(default)) => self.text(default, depth + 1),
            (Some(Err(())), _) => {
                self.wrong(
                    &written,
                    format!("the environment variable `{name}` is not UTF-8"),
                    String::new(),
                );
                String::new()
            }
            (None, None) => {
                let hint = format!("set it for the server, or write `${{{name}:-default}}`");
                self.wrong(&written, format!("there is no environment variable `{name}`"), hint);
                String::new()
            }
        }
    }

    fn secret(&mut self, inside: &str, path: &str, depth: usize) -> String {
        let written = format!("${{{inside}}}");
        if !self.keys.iter().any(|key| SECRET_KEYS.contains(&key.as_str())) {
            let key = self.keys.last().map(String::as_str).unwrap_or_default();
            let message = format!("`{}` takes no secret", shorten(key));
            let hint = "it can be seen in logs, in the status, or by other accounts; `${file:…}` goes into `env`, `params`, the \
                        fields of `request_headers` and `response_headers`, and conditions of `match`";
            self.wrong(&written, message, hint.into());
            return String::new();
        }
        let failed_before = std::mem::take(&mut self.failed);
        let path = self.text(path, depth + 1);
        let failed = self.failed;
        self.failed |= failed_before;
        if failed {
            return String::new();
        }
        let path = self.source.origin.base.join(path);
        match self.cx.lookup.secret(&path).map_err(|error| unreadable(&error)).and_then(contents) {
            Ok(secret) => {
                self.secrets.push(secret.clone());
                secret
            }
            Err(why) => {
                let place = shorten(&path.display().to_string());
                self.wrong(&written, format!("`{}`: {why}: {place}", shorten(&written)), String::new());
                String::new()
            }
        }
    }

    /// An error at the placeholder, as far as it stands in the file as it is read.
    fn wrong(&mut self, written: &str, message: String, hint: String) {
        self.failed = true;
        let place = match self.source.slice(self.span).find(written) {
            Some(at) => self.span.start + at..self.span.start + at + written.len(),
            None => self.span.clone(),
        };
        self.cx.placeholder(&place, message, (!hint.is_empty()).then_some(hint));
    }
}

/// Where the `}` is that belongs to a `${` before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if text[..at].ends_with('$') => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The text of a secret's file, without the newline at its end.
fn contents(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8")?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    match text.is_empty() {
        true => Err("the file is empty".into()),
        false => Ok(text.to_owned()),
    }
}
