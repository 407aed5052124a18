//! Values that had placeholders, and the secrets in them.

use super::span::{Finding, Span};

/// What is known of values that had placeholders.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    values: Vec<Value>,
    bytes: usize,
}

#[derive(Debug)]
struct Value {
    /// Of the whole string in the file.
    span: Span,
    /// The contents of `${file:…}`.
    secrets: Vec<String>,
    /// Something was wrong with a placeholder, and nothing else is said about the value.
    failed: bool,
}

impl Expanded {
    fn of(&self, span: &Span) -> Option<&Value> {
        self.values.iter().find(|value| value.span.start <= span.start && span.end <= value.span.end)
    }

    pub(super) fn is_known(&self, span: &Span) -> bool {
        self.values.iter().any(|value| value.span == *span)
    }

    /// Counts the bytes of a value, and says how many all have.
    pub(super) fn count(&mut self, bytes: usize) -> usize {
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes
    }

    /// Takes a value in. `failed`: something was wrong with a placeholder.
    pub(super) fn add(&mut self, span: Span, secrets: Vec<String>, failed: bool) {
        self.values.push(Value { span, secrets, failed });
    }

    /// Whether a string had a placeholder.
    pub(super) fn is_at(&self, span: &Span) -> bool {
        self.of(span).is_some()
    }

    /// Whether a string has a secret in it.
    pub(super) fn is_secret(&self, span: &Span) -> bool {
        self.of(span).is_some_and(|value| !value.secrets.is_empty())
    }

    /// Whether nothing is to be said about a value, because it could not be made.
    pub(super) fn has_failed(&self, span: &Span) -> bool {
        self.of(span).is_some_and(|value| value.failed)
    }

    /// Without secrets: what is wrong with a value often repeats a part of it.
    pub(super) fn redact(&self, mut finding: Finding) -> Finding {
        let secrets = self.values.iter().flat_map(|value| &value.secrets);
        let quotes = |text: &str| {
            let mut pieces = text.split(['`', '"', '\u{201c}', '\u{201d}']).skip(1).step_by(2);
            pieces.any(|piece| {
                let piece = piece.trim_end_matches('…').to_lowercase();
                !piece.is_empty() && secrets.clone().any(|secret| shown(secret).contains(&piece))
            })
        };
        let told = std::iter::once(finding.message.as_str()).chain(finding.hint.as_deref());
        let about = std::iter::once(&finding.span).chain(finding.related.as_ref().map(|(_, span)| span));
        let near = about.into_iter().any(|span| self.is_secret(span));
        let whole =
            |text: &str| secrets.clone().any(|secret| secret.len() >= 4 && text.contains(secret.as_str()));
        if told.clone().any(|text| (near && quotes(text)) || whole(text)) {
            finding.message = "this value cannot be used here".into();
            finding.hint = Some("what is wrong with it is not shown, because there is a secret in it".into());
        }
        finding
    }
}

/// As `shorten` shows it, but whole.
fn shown(secret: &str) -> String {
    secret.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>().to_lowercase()
}
