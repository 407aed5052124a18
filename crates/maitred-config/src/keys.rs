//! What may stand in the file: the vocabulary in which the tables of keys are declared.
//!
//! [`super::tables`] and [`super::limits`] declare each key once. The reader, "did you mean", the JSON Schema and
//! `docs/configuration.md` all come from those declarations.

use std::time::Duration;

use super::values::{show_bytes, show_duration};

/// The longest that most times can be.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A TOML table.
#[derive(Debug)]
pub(crate) struct Table {
    /// How it is written in a file: `[server]`, `[[site.route]]`, `headers`.
    pub title: &'static str,
    /// What it is for, in Markdown.
    pub doc: &'static str,
    /// An example, in TOML; may be empty.
    pub example: &'static str,
    /// The keys of the table, in the order of the reference.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The name of the key.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds when it is not given.
    pub default: Default,
    /// What it does, in Markdown.
    pub doc: &'static str,
    /// For a limit: why the default is what it is, and the memory that it bounds.
    pub reason: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A string of the form that is described.
    Text(&'static str),
    /// A string of a list.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// `true`, `false`, or one of these strings.
    FlagOrChoice(&'static [&'static str]),
    /// `true`, `false`, or a string of the form that is described.
    FlagOrText(&'static str),
    /// A whole number.
    Whole {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A word of a list, or a whole number.
    WordOrWhole {
        /// The words.
        words: &'static [&'static str],
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A whole number, or a table that says more.
    WholeOrSection {
        /// Smallest number allowed.
        min: u64,
        /// Largest number allowed.
        max: u64,
        /// The table.
        table: &'static Table,
    },
    /// A string of a list, or a table that says more.
    ChoiceOrSection {
        /// The strings.
        words: &'static [&'static str],
        /// The table.
        table: &'static Table,
    },
    /// `true`, `false`, or a table that says more.
    FlagOrSection(&'static Table),
    /// `true`, `false`, one of these strings, or a table that says more.
    FlagOrWordOrSection {
        /// The strings.
        words: &'static [&'static str],
        /// The table.
        table: &'static Table,
    },
    /// `"16KiB"`, or a number of bytes.
    Size {
        /// Smallest allowed, in bytes.
        min: u64,
        /// Largest allowed, in bytes.
        max: u64,
    },
    /// `"5s"`, or a number of seconds.
    Time {
        /// Shortest allowed.
        min: Duration,
        /// Longest allowed.
        max: Duration,
    },
    /// An array of strings of the form that is described.
    Texts(&'static str),
    /// A string of the form that is described, or an array of them.
    TextOrTexts(&'static str),
    /// The same, where a table that says more can stand in place of each string of the array.
    TextsOrSections(&'static str, &'static Table),
    /// An array of some of these strings.
    Choices(&'static [&'static str]),
    /// A table whose keys are free, and whose values are strings.
    Map(&'static str),
    /// A string, or such a table: what each of them says.
    TextOrMap(&'static str, &'static str),
    /// A table whose keys are free, and whose values are arrays of strings.
    Lists(&'static str),
    /// A table.
    Section(&'static Table),
    /// An array of tables.
    Sections(&'static Table),
    /// A table, or an array of such tables.
    SectionOrSections(&'static Table),
    /// A table with any keys and values.
    Free(&'static str),
    /// A table of tables, each under a name of the operator's choice.
    Named(&'static Table),
}

/// What holds when a key is not given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Default {
    /// The key has to be given.
    Required,
    /// Nothing; this says what that means.
    Absent(&'static str),
    /// A string.
    Text(&'static str),
    /// A truth value.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A number of bytes.
    Size(u64),
    /// A time.
    Time(Duration),
    /// An array of strings.
    Texts(&'static [&'static str]),
}

impl Table {
    /// The key of that name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// A key without a reason; the limits have one.
    pub(crate) const fn new(name: &'static str, kind: Kind, default: Default, doc: &'static str) -> Key {
        Key { name, kind, default, doc, reason: "" }
    }
}

impl Kind {
    /// The table that it takes.
    pub(crate) fn table(&self) -> Option<&'static Table> {
        match self {
            Kind::Section(table)
            | Kind::Sections(table)
            | Kind::SectionOrSections(table)
            | Kind::Named(table)
            | Kind::FlagOrSection(table)
            | Kind::WholeOrSection { table, .. }
            | Kind::TextsOrSections(_, table)
            | Kind::FlagOrWordOrSection { table, .. }
            | Kind::ChoiceOrSection { table, .. } => Some(table),
            _ => None,
        }
    }

    /// What an error message says was expected: "a whole number".
    pub(crate) fn expected(&self) -> String {
        match self {
            Kind::Text(_) | Kind::Choice(_) => "a string".into(),
            Kind::Flag => "true or false".into(),
            Kind::FlagOrChoice(words) => format!("true, false or {}", quoted_list(words, " or ")),
            Kind::FlagOrText(_) => "true, false or a string".into(),
            Kind::Whole { .. } => "a whole number".into(),
            Kind::WordOrWhole { words, .. } => format!("{} or a whole number", quoted_list(words, ", ")),
            Kind::WholeOrSection { .. } => "a whole number or a table".into(),
            Kind::ChoiceOrSection { .. } => "a string or a table".into(),
            Kind::FlagOrSection(_) => "true, false or a table".into(),
            Kind::FlagOrWordOrSection { words, .. } => {
                format!("true, false, {} or a table", quoted_list(words, ", "))
            }
            Kind::Size { .. } => "a size such as \"16KiB\"".into(),
            Kind::Time { .. } => "a time such as \"5s\"".into(),
            Kind::Texts(_) | Kind::Choices(_) => "an array of strings".into(),
            Kind::TextOrTexts(_) => "a string or an array of strings".into(),
            Kind::TextsOrSections(..) => "a string, or an array of strings and tables".into(),
            Kind::TextOrMap(..) => "a string or a table".into(),
            Kind::Map(_) | Kind::Lists(_) | Kind::Section(_) | Kind::Named(_) => "a table".into(),
            Kind::Sections(_) => "an array of tables".into(),
            Kind::SectionOrSections(_) => "a table or an array of tables".into(),
            Kind::Free(_) => "a table".into(),
        }
    }

    /// What the reference says it takes.
    pub(crate) fn described(&self) -> String {
        match self {
            Kind::Text(form) => (*form).into(),
            Kind::Choice(words) => code_list(words),
            Kind::Flag => "`true`, `false`".into(),
            Kind::FlagOrChoice(words) => format!("`true`, `false`, {}", code_list(words)),
            Kind::FlagOrText(form) => format!("`true`, `false`, {form}"),
            Kind::Whole { min, max } => format!("a whole number, {min} to {max}"),
            Kind::WordOrWhole { words, min, max } => {
                format!("{} or a whole number, {min} to {max}", code_list(words))
            }
            Kind::WholeOrSection { min, max, table } => {
                format!("a whole number, {min} to {max}, or a table, see `{}`", table.title)
            }
            Kind::ChoiceOrSection { words, table } => {
                format!("{}, or a table, see `{}`", code_list(words), table.title)
            }
            Kind::FlagOrSection(table) => format!("`true`, `false`, or a table, see `{}`", table.title),
            Kind::FlagOrWordOrSection { words, table } => {
                format!("`true`, `false`, {}, or a table, see `{}`", code_list(words), table.title)
            }
            Kind::Size { min, max } => format!("a size, {} to {}", show_bytes(*min), show_bytes(*max)),
            Kind::Time { min, max } => format!("a time, {} to {}", show_duration(*min), show_duration(*max)),
            Kind::Texts(form) => format!("an array: {form}"),
            Kind::TextOrTexts(form) => format!("{form}; or an array of several"),
            Kind::TextsOrSections(form, table) => {
                format!("{form}; or an array of several, and of tables, see `{}`", table.title)
            }
            Kind::Choices(words) => format!("an array of {}", code_list(words)),
            Kind::TextOrMap(text, form) => format!("{text}; or a table: {form}"),
            Kind::Map(form) | Kind::Lists(form) => format!("a table: {form}"),
            Kind::Section(table) => format!("a table, see `{}`", table.title),
            Kind::Sections(table) | Kind::Named(table) => format!("tables, see `{}`", table.title),
            Kind::SectionOrSections(table) => {
                format!("a table, see `{}`; or an array of several", table.title)
            }
            Kind::Free(form) => format!("a table: {form}"),
        }
    }
}

impl Default {
    /// As it would be written in the file, or in words.
    pub(crate) fn described(&self) -> String {
        match self {
            Default::Required => "*required*".into(),
            Default::Absent(meaning) => (*meaning).into(),
            Default::Text(text) => format!("`\"{text}\"`"),
            Default::Flag(flag) => format!("`{flag}`"),
            Default::Whole(number) => format!("`{number}`"),
            Default::Size(bytes) => format!("`\"{}\"`", show_bytes(*bytes)),
            Default::Time(time) => format!("`\"{}\"`", show_duration(*time)),
            Default::Texts(texts) => format!("`[{}]`", quoted_list(texts, ", ")),
        }
    }
}

/// `"a", "b"`
pub(super) fn quoted_list(words: &[&str], separator: &str) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(separator)
}

fn code_list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}
