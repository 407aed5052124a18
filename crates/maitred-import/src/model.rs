//! What the TOML is written from: tables with their keys, each with the place that it comes from.

use std::fmt::Write as _;

use super::report::Place;
use super::variables;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A boolean.
    Flag(bool),
    /// An array.
    List(Vec<Value>),
    /// An inline table.
    Table(Vec<(String, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Whole(number)
    }
}

impl Value {
    /// An array of strings.
    pub(crate) fn texts<T: AsRef<str>>(texts: &[T]) -> Value {
        Value::List(texts.iter().map(|text| text.as_ref().into()).collect())
    }

    /// A string, or an array of several.
    pub(crate) fn one_or_more<T: AsRef<str>>(texts: &[T]) -> Value {
        match texts {
            [one] => one.as_ref().into(),
            several => Value::texts(several),
        }
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The key; without a value a comment.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub place: Option<Place>,
    /// The reason for which the entry is written as a comment.
    pub off: Option<String>,
}

/// A table or an item of an array of tables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// `[server]`, `[[site]]` …
    pub header: String,
    /// Where it comes from, and what stands there.
    pub origin: Option<(Place, String)>,
    /// What else is to be known of it, a line each.
    pub notes: Vec<String>,
    /// The keys of the block.
    pub entries: Vec<Entry>,
    /// All of it is written as comments, for this reason.
    pub off: Option<String>,
}

impl Block {
    /// A table without keys.
    pub(crate) fn new(header: &str) -> Block {
        Block { header: header.to_owned(), origin: None, notes: Vec::new(), entries: Vec::new(), off: None }
    }

    /// With the place that it comes from.
    pub(crate) fn from(mut self, place: &Place, what: &str) -> Block {
        self.origin = Some((place.clone(), super::report::shorten(what)));
        self
    }

    /// Adds a key.
    pub(crate) fn push(&mut self, key: &str, value: impl Into<Value>, place: Option<&Place>) {
        let (key, value, place) = (key.to_owned(), value.into(), place.cloned());
        self.entries.push(Entry { key, value, place, off: None });
    }

    /// Adds a key that is written as a comment.
    pub(crate) fn push_off(&mut self, key: &str, value: impl Into<Value>, place: Option<&Place>, why: &str) {
        self.push(key, value, place);
        if let Some(last) = self.entries.last_mut() {
            last.off = Some(why.to_owned());
        }
    }

    /// Whether it has a key that counts.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key && entry.off.is_none())
    }
}

/// The whole output.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// The directory of the imported file: names in comments are shown without it.
    pub directory: String,
    /// Whether places stand at headers of lists alone, and not at keys and at tables with names.
    pub brief: bool,
    /// The imported file, if there is one alone: its lines are shown without its name.
    pub main: Option<String>,
    /// Comments at its start.
    pub intro: Vec<String>,
    /// The tables, in their order.
    pub blocks: Vec<Block>,
}

/// What stands in a line: the block, and the key if it is not the header.
pub(crate) type Line = Option<(usize, Option<usize>)>;

impl Document {
    /// The text, and what stands in each of its lines.
    pub(crate) fn render(&self) -> (String, Vec<Line>) {
        let main = self.main.as_deref();
        let mut writer = Writer { directory: &self.directory, brief: self.brief, main, ..Writer::default() };
        for line in &self.intro {
            writer.comment(line);
        }
        for (at, block) in self.blocks.iter().enumerate() {
            if !writer.text.is_empty() {
                writer.line("", None);
            }
            writer.block(at, block);
        }
        (writer.text, writer.lines)
    }
}

#[derive(Default)]
struct Writer<'a> {
    directory: &'a str,
    brief: bool,
    main: Option<&'a str>,
    /// Why the table before is a comment.
    off: Option<&'a str>,
    text: String,
    lines: Vec<Line>,
}

impl<'a> Writer<'a> {
    fn line(&mut self, text: &str, what: Line) {
        self.text.push_str(text);
        self.text.push('\n');
        self.lines.push(what);
    }

    fn comment(&mut self, text: &str) {
        self.line(format!("# {}", one_line(&variables::written(text))).trim_end(), None);
    }

    fn place(&self, place: &Place) -> String {
        if self.main == Some(&*place.file) {
            return place.line.to_string();
        }
        let text = place.to_string();
        text.strip_prefix(self.directory).map_or(text.clone(), |rest| rest.trim_start_matches('/').to_owned())
    }

    fn block(&mut self, at: usize, block: &'a Block) {
        for note in &block.notes {
            self.comment(note);
        }
        let origin = block.origin.as_ref().filter(|_| !self.brief || block.header.starts_with("[["));
        let origin = origin.map(|(place, _)| format!("  # {}", self.place(place)));
        let header = format!("{}{}", block.header, origin.unwrap_or_default());
        // A reason that several blocks have is given once.
        if let Some(why) = block.off.as_deref().filter(|why| self.off != Some(*why)) {
            self.comment(&format!("not used, because {why}"));
        }
        match block.off.is_some() {
            true => self.comment(&header),
            false => self.line(&one_line(&header), Some((at, None))),
        }
        self.off = block.off.as_deref();
        let mut reason: Option<&str> = None;
        for (number, entry) in block.entries.iter().enumerate() {
            let mut text = format!("{} = {}", key(&entry.key), show(&entry.value));
            let place = entry.place.as_ref().filter(|_| !self.brief);
            let origin = place.map(|place| format!("  # {}", self.place(place)));
            let origin = origin.unwrap_or_default();
            if let Some(why) = entry.off.as_deref().filter(|why| reason != Some(*why)) {
                self.comment(&format!("when {why}:"));
            }
            reason = entry.off.as_deref();
            if entry.off.is_some() || block.off.is_some() {
                text.insert_str(0, "# ");
            }
            self.line(&one_line(&format!("{text}{origin}")), Some((at, Some(number))));
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
}

fn key(text: &str) -> String {
    let bare =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if bare { text.to_owned() } else { string(text) }
}

fn string(text: &str) -> String {
    let literal = text.contains(['\\', '"']) && !text.contains(|c: char| c == '\'' || c.is_control());
    if literal {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value, as TOML has it.
pub(crate) fn show(value: &Value) -> String {
    match value {
        // Placeholders for variables of the environment are Maitred's own.
        Value::Text(text) => string(&variables::written(&text.replace("${", "$${"))),
        Value::Whole(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Table(entries) => {
            let inside: Vec<String> =
                entries.iter().map(|(name, value)| format!("{} = {}", key(name), show(value))).collect();
            format!("{{ {} }}", inside.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        for text in ["", "a", "a\"b", r"\.php$", r"'\d'", "a\nb\u{1}\u{7f}", "é", "a'b\"c\\d", "\u{85}"] {
            let line = format!("{} = {}", key(text), show(&text.into()));
            let read: toml::Table = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(read.get(text).and_then(|value| value.as_str()), Some(text), "{line}");
        }
    }

    #[test]
    fn lines_know_their_keys() {
        let mut block = Block::new("[[site]]");
        block.push("root", "/a", None);
        block.push_off("index", Value::texts(&["a"]), None, "it is\nthere");
        let document = Document { intro: vec!["x".into()], blocks: vec![block], ..Document::default() };
        let (text, lines) = document.render();
        assert_eq!(text, "# x\n\n[[site]]\nroot = \"/a\"\n# when it is there:\n# index = [\"a\"]\n");
        assert_eq!(lines, [None, None, Some((0, None)), Some((0, Some(0))), None, Some((0, Some(1)))]);
    }
}
