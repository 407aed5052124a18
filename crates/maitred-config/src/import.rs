//! `import`: a configuration of several files.
//!
//! First all files are found and their texts read; then each is parsed, and its tables are put together with those of the files
//! before it. The texts stay where they are: findings of any of them show their place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::disk::{FILES_MAX, unreadable};
use super::expand;
use super::finding::{At, Context, Origin, Span};
use super::keys::Kind;
use super::parts::IMPORT;
use super::reader::{Section, shorten};
use super::source::{Source, Sources};
use super::syntax::Noise;
use super::tables::ROOT;

/// Files in files: one for each program or host, perhaps in directories of their own, is two; more is a mistake.
const DEPTH_MAX: usize = 8;
/// Finds and reads all files that a first one leads to.
pub(super) fn find(cx: &Context<'_>, text: &str, origin: &Origin) {
    let mut search = Search { cx, seen: BTreeMap::new() };
    let name = Path::new(&origin.name).file_name().unwrap_or_default();
    let path = cx.lookup.real_path(&origin.base.join(name));
    search.seen.insert(path.clone(), 0..0);
    search.file(text.to_owned(), origin.clone(), None, &mut vec![path]);
}

struct Search<'s> {
    cx: &'s Context<'s>,
    /// Each file that was found, without symbolic links, and where it is imported.
    seen: BTreeMap<PathBuf, Span>,
}

impl Search<'_> {
    /// `chain` leads from the first file to this one.
    fn file(&mut self, text: String, origin: Origin, imported: Option<Span>, chain: &mut Vec<PathBuf>) {
        let mut patterns = Vec::new();
        {
            let mut sources = self.cx.sources.borrow_mut();
            let start = sources.add(origin.clone(), text, imported);
            let Some(source) = sources.file(start) else { return };
            let (table, _) = DeTable::parse_recoverable(&source.text);
            let named = table.into_inner().into_iter().filter(|(key, _)| key.get_ref() == IMPORT.name);
            let table = shifted(self.cx, source, named.collect());
            let span = source.start..source.start;
            let section = Section::open(self.cx, Some(&table), &ROOT, span, "the file".into());
            patterns.extend(section.texts(IMPORT.name));
        }
        for pattern in patterns {
            if !self.cx.expanded.borrow().has_failed(&pattern.span) {
                self.pattern(&pattern, &origin, chain);
            }
        }
    }

    fn pattern(&mut self, pattern: &At<String>, origin: &Origin, chain: &mut Vec<PathBuf>) {
        let shown = shorten(&pattern.value);
        if pattern.value.is_empty() || pattern.value.contains('\0') {
            return self.cx.error(&pattern.span, "`import`: this is not a path");
        }
        if pattern.value.contains("**") {
            let hint = "`*` stands for a part of a name; name each directory";
            return self.cx.error_with(&pattern.span, format!("`import` does not take \"{shown}\""), hint);
        }
        if !pattern.value.contains(['*', '?', '[']) {
            return self.path(Path::new(&pattern.value), pattern, origin, chain);
        }
        match self.cx.lookup.matching(&origin.base, &pattern.value) {
            Ok(found) => found.iter().for_each(|path| self.path(path, pattern, origin, chain)),
            Err(why) => {
                self.cx.failed_import();
                self.cx.error(&pattern.span, format!("`import`: \"{shown}\": {why}"));
            }
        }
    }

    /// One file: `path` is as it is written, or as the pattern matched it.
    fn path(&mut self, path: &Path, pattern: &At<String>, origin: &Origin, chain: &mut Vec<PathBuf>) {
        let (cx, span) = (self.cx, &pattern.span);
        let name = Path::new(&origin.name).parent().unwrap_or(Path::new("")).join(path);
        let name = shorten_path(&name);
        let absolute = origin.base.join(path);
        let real = cx.lookup.real_path(&absolute);
        if let Some(first) = self.seen.get(&real) {
            return match chain.contains(&real) {
                true if chain.last() == Some(&real) => cx.error(span, format!("{name} imports itself")),
                true if *first == (0..0) => {
                    cx.error(span, format!("{name} imports itself, by way of this file"));
                }
                true => cx.conflict(
                    span,
                    format!("{name} imports itself, by way of this file"),
                    "it is imported here",
                    first,
                ),
                false => {
                    cx.conflict(
                        span,
                        format!("{name} is imported twice"),
                        "it is first imported here",
                        first,
                    );
                }
            };
        }
        self.seen.insert(real.clone(), span.clone());
        let hint =
            "it starts at the directory of the file that imports it; a pattern with `*` may match nothing";
        if self.seen.len() > FILES_MAX {
            cx.failed_import();
            return cx.error(span, format!("a configuration has at most {FILES_MAX} files"));
        }
        if chain.len() >= DEPTH_MAX {
            cx.failed_import();
            return cx.error(span, format!("imports are nested more than {DEPTH_MAX} levels deep"));
        }
        match cx.lookup.text(&absolute) {
            Ok(text) => {
                let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
                chain.push(real);
                self.file(text, Origin { name, base }, Some(span.clone()), chain);
                chain.pop();
            }
            Err(error) => {
                cx.failed_import();
                let message = format!("`import`: {name}: {}", unreadable(&error));
                match Path::new(&pattern.value).is_absolute() || error.kind() != std::io::ErrorKind::NotFound
                {
                    true => cx.error(span, message),
                    false => cx.error_with(span, message, hint),
                }
            }
        }
    }
}

fn shorten_path(path: &Path) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    path.components().collect::<PathBuf>().display().to_string().chars().map(clean).collect()
}

/// All files that were found as one table.
pub(super) fn join<'s>(cx: &Context<'_>, sources: &'s Sources, noise: &mut Noise) -> DeTable<'s> {
    let mut all = DeTable::new();
    for source in sources.files() {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        noise.take(source, errors).into_iter().for_each(|finding| cx.note(finding));
        let table = shifted(cx, source, table.into_inner());
        if source.imported.is_none() {
            all = table;
            continue;
        }
        check_kinds(cx, source, &table);
        for (key, value) in table {
            put(cx, &mut all, key, value);
        }
    }
    all
}

/// Checks that what stands at the top of an imported file has its kind: what has another one is left out of the whole.
fn check_kinds(cx: &Context<'_>, source: &Source, table: &DeTable<'_>) {
    let root = Section::open(cx, Some(table), &ROOT, source.start..source.start, "the file".into());
    for key in ROOT.keys.iter().filter(|key| table.contains_key(key.name)) {
        match key.kind {
            Kind::Sections(_) => drop(root.sections(key.name)),
            Kind::Named(_) => drop(root.named(key.name)),
            Kind::Section(_) => drop(root.section(key.name)),
            _ => {}
        }
    }
}

type Text<'s> = Spanned<std::borrow::Cow<'s, str>>;

/// Adds a table of an imported file to what the files before it have.
fn put<'s>(cx: &Context<'_>, all: &mut DeTable<'s>, key: Text<'s>, value: Spanned<DeValue<'s>>) {
    let name = key.get_ref().to_string();
    let Some(declared) = ROOT.key(&name).filter(|key| key.name != IMPORT.name) else { return };
    let named = matches!(declared.kind, Kind::Named(_) | Kind::Lists(_));
    let Some(present) = all.get_mut(name.as_str()) else {
        all.insert(key, value);
        return;
    };
    match (present.get_mut(), value.into_inner()) {
        (DeValue::Array(present), DeValue::Array(more)) => {
            more.into_iter().for_each(|item| present.push(item))
        }
        (DeValue::Table(present), DeValue::Table(more)) => {
            for (key, value) in more {
                if let Some((first, _)) = present.get_key_value(key.get_ref().as_ref()) {
                    let inner = shorten(key.get_ref());
                    let what = match named {
                        true => format!("[{name}.{inner}] is defined in two files"),
                        false => format!("`{inner}` of [{name}] is set in two files"),
                    };
                    cx.conflict(&key.span(), what, "it is first set here", &first.span());
                } else {
                    present.insert(key, value);
                }
            }
        }
        _ => {}
    }
}

/// A table of a file, with its places in the row of all texts, and with what its placeholders stand for.
fn shifted<'s>(cx: &Context<'_>, source: &Source, table: DeTable<'s>) -> DeTable<'s> {
    move_table(cx, source, table, &mut Vec::new())
}

fn move_table<'s>(
    cx: &Context<'_>,
    source: &Source,
    table: DeTable<'s>,
    keys: &mut Vec<String>,
) -> DeTable<'s> {
    let mut moved = DeTable::new();
    for (key, value) in table {
        keys.push(key.get_ref().to_string());
        let value = move_value(cx, source, value, keys);
        keys.pop();
        let span = move_span(source, &key.span());
        moved.insert(Spanned::new(span, key.into_inner()), value);
    }
    moved
}

fn move_value<'s>(
    cx: &Context<'_>,
    source: &Source,
    value: Spanned<DeValue<'s>>,
    keys: &mut Vec<String>,
) -> Spanned<DeValue<'s>> {
    let span = move_span(source, &value.span());
    let moved = match value.into_inner() {
        DeValue::String(text) => match expand::string(cx, source, (&text, &span), keys) {
            Some(expanded) => DeValue::String(expanded.into()),
            None => DeValue::String(text),
        },
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| move_value(cx, source, item, keys));
            DeValue::Array(items.collect::<DeArray<'_>>())
        }
        DeValue::Table(table) => DeValue::Table(move_table(cx, source, table, keys)),
        other => other,
    };
    Spanned::new(span, moved)
}

fn move_span(source: &Source, span: &Span) -> Span {
    span.start + source.start..span.end + source.start
}
