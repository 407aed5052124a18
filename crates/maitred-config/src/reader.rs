//! Typed access to the tables of a file, held to the declarations of [`super::tables`].
//!
//! A getter always gives a value: what is wrong is noted as a finding, and the default takes its place, so that the
//! reading goes on and finds the rest. Whether the result may be used is decided once, at the end.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::defaults::DEFAULTS;
use super::finding::{At, Context, Span};
use super::foreign::{as_array, counterpart};
use super::keys::{Default, Key, Kind, Table, quoted_list};
use super::suggest::nearest;
use super::tables::ROOT;
use super::values;

/// One TOML table of the file, or its absence.
pub(super) struct Section<'a> {
    pub(super) cx: &'a Context<'a>,
    table: Option<&'a DeTable<'a>>,
    spec: &'static Table,
    /// The place of the table's header, or of its braces.
    pub(super) span: Span,
    /// How messages call it.
    pub(super) label: String,
}

impl<'a> Section<'a> {
    /// Opens a table, and reports the keys that do not belong there.
    pub(super) fn open(
        cx: &'a Context<'a>,
        table: Option<&'a DeTable<'a>>,
        spec: &'static Table,
        span: Span,
        label: String,
    ) -> Section<'a> {
        for (key, _) in table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if spec.key(name).is_none() {
                let message = format!("unknown key `{}` in {label}", shorten(name));
                cx.error_with(&key.span(), message, meant(name, spec));
            }
        }
        Section { cx, table, spec, span, label }
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        let key = self.spec.key(name);
        debug_assert!(key.is_some(), "{name} is not declared in {}", self.spec.title);
        #[cfg(test)]
        if let Some(key) = key {
            self.cx.asked.borrow_mut().insert((self.spec.title, key.name));
        }
        key
    }

    fn value(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.get(name)
    }

    /// Where the value of a key stands, if it is given.
    pub(super) fn given(&self, name: &str) -> Option<Span> {
        self.value(name).map(Spanned::span)
    }

    /// Where the first of these keys that is given has its name.
    pub(super) fn key_span(&self, name: &str) -> Option<Span> {
        self.table?.get_key_value(name).map(|(key, _)| key.span())
    }

    /// Whether a string had a placeholder: it can stand for a number or a truth value, too.
    fn is_expanded(&self, value: &Spanned<DeValue<'_>>) -> bool {
        self.cx.expanded.borrow().is_at(&value.span())
    }

    /// Where a key has its name that the table has by itself, and not from `[defaults]`.
    pub(super) fn own_key_span(&self, name: &str) -> Option<Span> {
        self.key_span(name).filter(|span| !self.cx.inherited.borrow().contains(&span.start))
    }

    /// Notes that all keys of this table are read elsewhere, as those of other tables.
    pub(super) fn read_elsewhere(&self) {
        for key in self.spec.keys {
            let _ = self.key(key.name);
        }
    }

    fn wrong_type(&self, key: &Key, found: &Spanned<DeValue<'_>>) {
        let expected = key.kind.expected();
        let found_text = match found.get_ref() {
            DeValue::String(text) if self.is_expanded(found) => {
                let message = format!("`{}`: expected {expected}, found \"{}\"", key.name, shorten(text));
                let hint = format!("`{}` takes {}", key.name, key.kind.described());
                return self.cx.error_with(&found.span(), message, hint);
            }
            other => type_name(other),
        };
        let hint = match (&key.kind, found.get_ref()) {
            (Kind::Texts(_), DeValue::String(text)) if key.name == "command" => {
                format!("write {} = {}", key.name, as_array(text))
            }
            (Kind::Texts(_) | Kind::Choices(_), DeValue::String(text)) => {
                format!("write {} = [\"{}\"]", key.name, shorten(text))
            }
            (
                Kind::Whole { .. } | Kind::WordOrWhole { .. } | Kind::WholeOrSection { .. },
                DeValue::String(text),
            ) if text.parse::<u64>().is_ok() => {
                format!("write {} = {text}, without quotation marks", key.name)
            }
            (Kind::Flag, DeValue::String(text)) if matches!(text.as_ref(), "true" | "false") => {
                format!("write {} = {text}, without quotation marks", key.name)
            }
            _ => format!("`{}` takes {}", key.name, key.kind.described()),
        };
        self.cx.error_with(
            &found.span(),
            format!("`{}`: expected {expected}, found {found_text}", key.name),
            hint,
        );
    }

    fn require(&self, key: &Key) {
        if matches!(key.default, Default::Required) {
            self.cx.missing(
                &self.span,
                format!("{} has no `{}`", self.label, key.name),
                format!("`{}` takes {}", key.name, key.kind.described()),
            );
        }
    }

    /// A truth value.
    pub(super) fn flag(&self, name: &str) -> bool {
        let Some(key) = self.key(name) else { return false };
        match self.value(name).map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Boolean(flag))) => return *flag,
            Some((value, DeValue::String(text))) if self.is_expanded(value) => match text.trim() {
                "true" => return true,
                "false" => return false,
                _ => self.wrong_type(key, value),
            },
            Some((value, _)) => self.wrong_type(key, value),
            None => self.require(key),
        }
        matches!(key.default, Default::Flag(true))
    }

    /// A whole number, a size in bytes, or the number of a `WordOrWhole`, within its bounds.
    pub(super) fn number<T: TryFrom<u64> + std::default::Default>(&self, name: &str) -> At<T> {
        let at = self.number_or_default(name);
        debug_assert!(T::try_from(at.value).is_ok(), "{name} is declared with too wide a range");
        At { value: T::try_from(at.value).unwrap_or_default(), span: at.span }
    }

    fn number_or_default(&self, name: &str) -> At<u64> {
        let default = match self.key(name).map(|key| key.default) {
            Some(Default::Whole(number) | Default::Size(number)) => number,
            _ => 0,
        };
        match self.value(name) {
            None => At { value: default, span: self.span.clone() },
            Some(value) => {
                At { value: self.given_number(name, value).unwrap_or(default), span: value.span() }
            }
        }
    }

    fn given_number(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<u64> {
        let key = self.key(name)?;
        let span = value.span();
        let (min, max, number) = match (&key.kind, value.get_ref()) {
            (
                Kind::Whole { min, max }
                | Kind::WordOrWhole { min, max, .. }
                | Kind::WholeOrSection { min, max, .. }
                | Kind::Size { min, max },
                DeValue::Integer(number),
            ) => (*min, *max, i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX)),
            (Kind::Size { min, max }, DeValue::String(text)) => {
                let what = format!("`{name}`: \"{}\" is not a size", shorten(text));
                (*min, *max, self.cx.accept(&span, &what, values::bytes(text))?.into())
            }
            (
                Kind::Whole { min, max }
                | Kind::WordOrWhole { min, max, .. }
                | Kind::WholeOrSection { min, max, .. },
                DeValue::String(text),
            ) if self.is_expanded(value) && is_number(text) => {
                (*min, *max, text.trim().parse().unwrap_or(i128::MAX))
            }
            _ => {
                self.wrong_type(key, value);
                return None;
            }
        };
        match u64::try_from(number).ok().filter(|number| (min..=max).contains(number)) {
            Some(number) => Some(number),
            None => {
                self.out_of_range(key, &span);
                None
            }
        }
    }

    fn out_of_range(&self, key: &Key, span: &Span) {
        self.cx.error_with(
            span,
            format!("`{}` is out of range", key.name),
            format!("it takes {}", key.kind.described()),
        );
    }

    /// A word of the list, or a number.
    pub(super) fn word_or_number(&self, name: &str) -> Option<WordOrNumber> {
        let key = self.key(name)?;
        let Kind::WordOrWhole { words, .. } = &key.kind else { return None };
        match self.value(name) {
            None => match key.default {
                Default::Text(word) => Some(WordOrNumber::Word(word)),
                _ => None,
            },
            Some(value) => match value.get_ref() {
                DeValue::String(text) if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    self.choose(key, words, text, &value.span()).map(WordOrNumber::Word)
                }
                _ => self.given_number(name, value).map(WordOrNumber::Number),
            },
        }
    }

    /// A time.
    pub(super) fn time(&self, name: &str) -> Duration {
        let Some(key) = self.key(name) else { return Duration::ZERO };
        let default = match key.default {
            Default::Time(time) => time,
            _ => Duration::ZERO,
        };
        self.value(name).and_then(|value| self.given_time(key, value)).unwrap_or(default)
    }

    fn given_time(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> Option<Duration> {
        let Kind::Time { min, max } = key.kind else { return None };
        let span = value.span();
        let time = match value.get_ref() {
            DeValue::Integer(seconds) => {
                u64::from_str_radix(seconds.as_str(), seconds.radix()).ok().map(Duration::from_secs)
            }
            DeValue::String(text) if is_number(text) && self.is_expanded(value) => {
                text.trim().parse().ok().map(Duration::from_secs)
            }
            DeValue::String(text) => {
                let what = format!("`{}`: \"{}\" is not a time", key.name, shorten(text));
                Some(self.cx.accept(&span, &what, values::duration(text))?)
            }
            _ => {
                self.wrong_type(key, value);
                return None;
            }
        };
        let time = time.filter(|time| (min..=max).contains(time));
        if time.is_none() {
            self.out_of_range(key, &span);
        }
        time
    }

    /// A string that has a default, or has to be given.
    pub(super) fn text(&self, name: &str) -> Option<At<String>> {
        let key = self.key(name)?;
        match self.value(name) {
            Some(value) => self.given_text(key, value),
            None => {
                self.require(key);
                match key.default {
                    Default::Text(text) => Some(At { value: text.into(), span: self.span.clone() }),
                    _ => None,
                }
            }
        }
    }

    fn given_text(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> Option<At<String>> {
        match value.get_ref() {
            DeValue::String(text) => Some(At { value: text.to_string(), span: value.span() }),
            _ => {
                self.wrong_type(key, value);
                None
            }
        }
    }

    /// A truth value, or one of the words that are declared.
    pub(super) fn flag_or_choice(&self, name: &str) -> Result<bool, &'static str> {
        if let Some(DeValue::String(text)) = self.value(name).map(|value| value.get_ref())
            && !matches!(text.trim(), "true" | "false")
        {
            return self.choice(name).map_or(Ok(false), Err);
        }
        Ok(self.flag(name))
    }

    /// A truth value, or a string; nothing where it is not given.
    pub(super) fn flag_or_text(&self, name: &str) -> Option<Result<bool, At<String>>> {
        match self.value(name)?.get_ref() {
            DeValue::String(text) if !matches!(text.trim(), "true" | "false") => self.text(name).map(Err),
            _ => Some(Ok(self.flag(name))),
        }
    }

    /// A word of those that are declared.
    pub(super) fn choice(&self, name: &str) -> Option<&'static str> {
        let key = self.key(name)?;
        let (Kind::Choice(words)
        | Kind::FlagOrChoice(words)
        | Kind::ChoiceOrSection { words, .. }
        | Kind::FlagOrWordOrSection { words, .. }) = key.kind
        else {
            return None;
        };
        let text = self.text(name)?;
        self.choose(key, words, &text.value, &text.span)
    }

    fn choose(&self, key: &Key, words: &[&'static str], text: &str, span: &Span) -> Option<&'static str> {
        let found = words.iter().copied().find(|word| *word == text);
        if found.is_none() {
            let hint = match nearest(text, words.iter().copied()) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None if matches!(key.kind, Kind::WordOrWhole { .. }) => {
                    format!("it takes {}", key.kind.described())
                }
                None => format!("it takes {}", quoted_list(words, ", ")),
            };
            self.cx.error_with(span, format!("`{}` does not take \"{}\"", key.name, shorten(text)), hint);
        }
        found
    }

    /// Several of the words that are declared, each at most once.
    pub(super) fn choices(&self, name: &str) -> Vec<&'static str> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Kind::Choices(words) = key.kind else { return Vec::new() };
        let mut chosen = Vec::new();
        for text in self.texts(name) {
            match self.choose(key, words, &text.value, &text.span) {
                Some(word) if chosen.contains(&word) => {
                    self.cx.error(&text.span, format!("`{name}` names \"{word}\" twice"));
                }
                Some(word) => chosen.push(word),
                None => {}
            }
        }
        chosen
    }

    /// An array of strings.
    pub(super) fn texts(&self, name: &str) -> Vec<At<String>> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Some(value) = self.value(name) else {
            self.require(key);
            let default = match key.default {
                Default::Texts(texts) => texts,
                _ => &[],
            };
            let at = |text: &&str| At { value: (*text).to_owned(), span: self.span.clone() };
            return default.iter().map(at).collect();
        };
        if let (Kind::TextOrTexts(_), DeValue::String(text)) = (&key.kind, value.get_ref()) {
            return vec![At { value: text.to_string(), span: value.span() }];
        }
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type(key, value);
            return Vec::new();
        };
        self.strings(key, array)
    }

    /// A string, or an array of strings and tables.
    pub(super) fn texts_or_sections(&self, name: &str) -> Vec<Result<At<String>, Section<'a>>> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Kind::TextsOrSections(_, spec) = key.kind else { return Vec::new() };
        let Some(value) = self.value(name) else { return Vec::new() };
        let text =
            |value: &Spanned<DeValue<'_>>, text: &str| At { value: text.to_owned(), span: value.span() };
        let items = match value.get_ref() {
            DeValue::String(only) => return vec![Ok(text(value, only))],
            DeValue::Array(items) => items,
            _ => {
                self.wrong_type(key, value);
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(one) => found.push(Ok(text(item, one))),
                DeValue::Table(table) => {
                    let label = label(spec, name);
                    found.push(Err(Section::open(self.cx, Some(table), spec, item.span(), label)));
                }
                other => self.cx.error(
                    &item.span(),
                    format!(
                        "`{name}`: expected strings and tables in this array, found {}",
                        type_name(other)
                    ),
                ),
            }
        }
        found
    }

    fn strings(&self, key: &Key, array: &DeArray<'_>) -> Vec<At<String>> {
        let mut texts = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push(At { value: text.to_string(), span: item.span() }),
                other => self.cx.error(
                    &item.span(),
                    format!("`{}`: expected strings in this array, found {}", key.name, type_name(other)),
                ),
            }
        }
        texts
    }

    /// A table with free keys and strings as values, in the order of the file.
    pub(super) fn map(&self, name: &str) -> Vec<(At<String>, At<String>)> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Some(value) = self.value(name) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, value);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (name, value) in table {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            match value.get_ref() {
                DeValue::String(text) => {
                    entries.push((name, At { value: text.to_string(), span: value.span() }))
                }
                other => self.cx.error(
                    &value.span(),
                    format!("`{}`: expected strings as values, found {}", key.name, type_name(other)),
                ),
            }
        }
        entries
    }

    /// A table with free keys and arrays of strings as values, in the order of the file.
    pub(super) fn lists(&self, name: &str) -> Vec<(At<String>, Vec<At<String>>)> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Some(value) = self.value(name) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, value);
            return Vec::new();
        };
        let mut lists = Vec::new();
        for (name, value) in table {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            match value.get_ref() {
                DeValue::Array(items) => lists.push((name, self.strings(key, items))),
                other => self.cx.error(
                    &value.span(),
                    format!("`{}`: expected arrays of strings, found {}", key.name, type_name(other)),
                ),
            }
        }
        lists
    }

    /// A table; an empty one if it is not given, or is not a table.
    pub(super) fn section(&self, name: &str) -> Section<'a> {
        let spec = match self.key(name).map(|key| (key, &key.kind)) {
            Some((_, Kind::Section(spec))) => spec,
            Some((
                _,
                Kind::WholeOrSection { table: spec, .. }
                | Kind::ChoiceOrSection { table: spec, .. }
                | Kind::FlagOrWordOrSection { table: spec, .. }
                | Kind::FlagOrSection(spec),
            )) => spec,
            _ => self.spec,
        };
        let (table, span) = match self.value(name).map(|value| (value, value.get_ref())) {
            None => (None, self.span.clone()),
            Some((value, DeValue::Table(table))) => (Some(table), value.span()),
            Some((value, _)) => {
                if let Some(key) = self.key(name) {
                    self.wrong_type(key, value);
                }
                (None, value.span())
            }
        };
        Section::open(self.cx, table, spec, span, label(spec, name))
    }

    /// A table, or an array of tables.
    pub(super) fn section_or_sections(&self, name: &str) -> Vec<Section<'a>> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Kind::SectionOrSections(spec) = key.kind else { return Vec::new() };
        let Some(value) = self.value(name) else { return Vec::new() };
        let open = |item: &'a Spanned<DeValue<'a>>| match item.get_ref() {
            DeValue::Table(table) => {
                Some(Section::open(self.cx, Some(table), spec, item.span(), label(spec, name)))
            }
            _ => {
                self.wrong_type(key, item);
                None
            }
        };
        match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(open).collect(),
            _ => open(value).into_iter().collect(),
        }
    }

    /// A table with any keys and values, as JSON; `{}` where it is not given.
    pub(super) fn free(&self, name: &str) -> String {
        let Some(key) = self.key(name) else { return "{}".to_owned() };
        match self.value(name).map(|value| (value, value.get_ref())) {
            None => "{}".to_owned(),
            Some((_, table @ DeValue::Table(_))) => json(table).to_string(),
            Some((value, _)) => {
                self.wrong_type(key, value);
                "{}".to_owned()
            }
        }
    }

    /// An array of tables.
    pub(super) fn sections(&self, name: &str) -> Vec<Section<'a>> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Kind::Sections(spec) = key.kind else { return Vec::new() };
        let Some(value) = self.value(name) else { return Vec::new() };
        let mut sections = Vec::new();
        match value.get_ref() {
            DeValue::Array(array) => {
                for item in array.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => sections.push(Section::open(
                            self.cx,
                            Some(table),
                            spec,
                            item.span(),
                            label(spec, name),
                        )),
                        other => self.cx.error(
                            &item.span(),
                            format!("`{name}`: expected tables in this array, found {}", type_name(other)),
                        ),
                    }
                }
            }
            DeValue::Table(_) => self.cx.error_with(
                &value.span(),
                format!("`{name}` is a list, and this is a single table"),
                format!("write {} with two pairs of brackets", spec.title),
            ),
            _ => self.wrong_type(key, value),
        }
        sections
    }

    /// Tables under names of the operator's choice, in the order of the file.
    pub(super) fn named(&self, name: &str) -> Vec<(At<String>, Section<'a>)> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let Kind::Named(spec) = key.kind else { return Vec::new() };
        let Some(value) = self.value(name) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, value);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (inner, value) in table {
            let at = At { value: inner.get_ref().to_string(), span: inner.span() };
            match value.get_ref() {
                DeValue::Table(table) => {
                    let label = format!("[{name}.{}]", shorten(inner.get_ref()));
                    sections.push((at, Section::open(self.cx, Some(table), spec, value.span(), label)));
                }
                other => self.cx.error_with(
                    &value.span(),
                    format!("`{name}`: expected a table, found {}", type_name(other)),
                    format!("write {}, with a name", spec.title),
                ),
            }
        }
        sections
    }

    /// Where an array stands that has nothing in it.
    pub(super) fn empty_array(&self, name: &str) -> Option<Span> {
        let value = self.value(name)?;
        value.get_ref().as_array().is_some_and(|array| array.is_empty()).then(|| value.span())
    }

    /// Whether a table stands under a key.
    pub(super) fn is_table(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.get_ref().is_table())
    }
}

/// What an unknown key was probably meant to be: a word of another server, a key of another table, or another name.
fn meant(name: &str, spec: &'static Table) -> String {
    if let Some(here) = counterpart(name) {
        return here.to_owned();
    }
    let mut places = Vec::new();
    places_of(name, &ROOT, &mut places);
    if !places.is_empty() {
        return format!("it belongs in {}", places.join(" or "));
    }
    let names = spec.keys.iter().map(|key| key.name);
    match nearest(name, names.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => nearest_elsewhere(name)
            .unwrap_or_else(|| format!("the keys here are {}", names.collect::<Vec<_>>().join(", "))),
    }
}

/// A key of another table that was probably meant.
fn nearest_elsewhere(name: &str) -> Option<String> {
    fn collect(table: &'static Table, names: &mut Vec<&'static str>) {
        names.extend(table.keys.iter().map(|key| key.name));
        table.keys.iter().filter_map(|key| key.kind.table()).for_each(|inner| collect(inner, names));
    }
    // Of short names, too many are near.
    if name.len() < 8 {
        return None;
    }
    let mut names = Vec::new();
    collect(&ROOT, &mut names);
    let meant = nearest(name, names)?;
    let mut places = Vec::new();
    places_of(meant, &ROOT, &mut places);
    (!places.is_empty()).then(|| format!("did you mean `{meant}`? It belongs in {}", places.join(" or ")))
}

/// The titles of all tables that have a key of this name.
fn places_of(name: &str, table: &'static Table, places: &mut Vec<&'static str>) {
    if table.title == DEFAULTS.title {
        return;
    }
    if table.key(name).is_some() && !places.contains(&table.title) {
        places.push(table.title);
    }
    table.keys.iter().filter_map(|key| key.kind.table()).for_each(|inner| places_of(name, inner, places));
}

/// What a `WordOrWhole` was set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordOrNumber {
    Word(&'static str),
    Number(u64),
}

fn is_number(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A value as JSON, whose numbers are as exact as it has them. Dates and times become strings.
fn json(value: &DeValue<'_>) -> serde_json::Value {
    use serde_json::Value;
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_or_else(|_| Value::String(number.as_str().to_owned()), Value::from)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse::<f64>().ok().and_then(serde_json::Number::from_f64);
            parsed.map_or_else(|| Value::String(number.as_str().to_owned()), Value::Number)
        }
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let members =
                table.iter().map(|(name, value)| (name.get_ref().to_string(), json(value.get_ref())));
            Value::Object(members.collect())
        }
    }
}

fn label(spec: &Table, name: &str) -> String {
    match spec.title.starts_with('[') {
        true => spec.title.to_owned(),
        false => format!("`{name}`"),
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(true) => "true",
        DeValue::Boolean(false) => "false",
        DeValue::Datetime(_) => "a date or time of day",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// For a message: at most 60 characters, nothing that could confuse a terminal.
pub(super) fn shorten(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(60).map(clean).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}
