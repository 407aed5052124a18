//! Reads the modules of a crate: what each file declares, imports and names by a path.
//!
//! The compiler's own lexer rules apply (`proc-macro2`), so that comments and strings are not taken for code. Code of unit tests
//! (`#[cfg(test)]`) is left out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The steps that a name is followed through imports: more is a mistake of this code.
const FOLLOW_MAX: usize = 16;

/// The names from the root of the crate to a module: `["config", "build"]`.
type ModulePath = Vec<String>;

/// A path as it stands in the code.
struct Mention {
    segments: Vec<String>,
    line: usize,
}

/// One name that a `use` brings into a module.
struct Import {
    name: String,
    path: Vec<String>,
    public: bool,
    line: usize,
}

#[derive(Default)]
struct Module {
    /// Where its text is, below `src`.
    file: String,
    children: HashSet<String>,
    items: HashSet<String>,
    imports: Vec<Import>,
    mentions: Vec<Mention>,
    words: HashSet<String>,
}

/// The modules of a crate, by path.
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
    /// The text of each file.
    pub(crate) texts: BTreeMap<String, TokenStream>,
}

/// Something that a file has from another one: an import, a path, or a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) line: usize,
    pub(crate) to: String,
    /// As it is written there.
    pub(crate) name: String,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}, of {}", self.from, self.line, self.name, self.to)
    }
}

/// The end of a path.
enum Target {
    /// Something in this module.
    Item(ModulePath),
    Module(ModulePath),
    Outside,
}

impl Crate {
    /// Reads the crate whose root is `lib.rs` in `src`.
    pub(crate) fn read(src: &Path) -> Result<Self, String> {
        Self::of(&|file| std::fs::read_to_string(src.join(file)).ok())
    }

    /// Reads the crate whose root is `lib.rs`, from whatever has the text of a file.
    pub(crate) fn of(text: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut reader = Reader { text, modules: BTreeMap::new(), texts: BTreeMap::new() };
        reader.file(Vec::new(), "lib.rs", None)?;
        Ok(Self { modules: reader.modules, texts: reader.texts })
    }

    /// The modules at the top.
    pub(crate) fn top(&self) -> Vec<&str> {
        self.modules
            .keys()
            .filter(|path| path.len() == 1)
            .filter_map(|path| path.first())
            .map(String::as_str)
            .collect()
    }

    /// Which file has something from which other file.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        for (path, module) in &self.modules {
            let mut put = |segments: &[String], line: usize| {
                // A module by itself counts only for what is named in it, unless all of it is.
                let to = match (self.resolve(path, segments, 0), segments.last()) {
                    (Target::Item(to), _) => to,
                    (Target::Module(to), Some(last)) if last == "*" => to,
                    _ => return,
                };
                if let Some(to) = self.modules.get(&to)
                    && to.file != module.file
                {
                    let (from, to) = (module.file.clone(), to.file.clone());
                    edges.push(Edge { from, line, to, name: segments.join("::") });
                }
            };
            for mention in &module.mentions {
                put(&mention.segments, mention.line);
            }
            for import in &module.imports {
                // A module that only shows what its parts have does not depend on them.
                let shown = import.public && self.leads_below(path, &import.path);
                if !shown || module.words.contains(&import.name) {
                    put(&import.path, import.line);
                }
            }
        }
        edges.sort();
        edges.dedup();
        edges
    }

    /// Names of items, each with the number of modules that have one.
    pub(crate) fn items(&self) -> HashMap<&str, usize> {
        let mut items = HashMap::new();
        for name in self.modules.values().flat_map(|module| &module.items) {
            *items.entry(name.as_str()).or_default() += 1;
        }
        items
    }

    /// The file in which an item is that another file knows by this name.
    pub(crate) fn definition(&self, file: &str, name: &str) -> Option<&str> {
        let (module, _) = self.modules.iter().find(|(_, module)| module.file == file)?;
        match self.descend(module, &[name.to_owned()], 0) {
            Target::Item(to) => self.modules.get(&to).map(|module| module.file.as_str()),
            Target::Module(_) | Target::Outside => None,
        }
    }

    fn leads_below(&self, module: &ModulePath, path: &[String]) -> bool {
        match self.resolve(module, path, 0) {
            Target::Item(to) | Target::Module(to) => to.starts_with(module),
            Target::Outside => false,
        }
    }

    /// Finds what a path in `module` leads to, through modules that only pass a name on.
    fn resolve(&self, module: &ModulePath, segments: &[String], depth: usize) -> Target {
        let Some((first, rest)) = segments.split_first() else { return Target::Module(module.clone()) };
        match first.as_str() {
            "crate" => self.descend(&Vec::new(), rest, depth),
            "self" => self.descend(module, rest, depth),
            "super" => match module.split_last() {
                Some((_, parent)) => self.resolve_below_super(&parent.to_vec(), rest, depth),
                None => Target::Outside,
            },
            _ => self.named(module, segments, depth),
        }
    }

    fn resolve_below_super(&self, module: &ModulePath, rest: &[String], depth: usize) -> Target {
        if rest.first().is_some_and(|next| next == "super") {
            return self.resolve(module, rest, depth);
        }
        self.descend(module, rest, depth)
    }

    /// A path that begins with a name of this module: one of its parts, or something imported.
    fn named(&self, module: &ModulePath, segments: &[String], depth: usize) -> Target {
        let Some(here) = self.modules.get(module) else { return Target::Outside };
        let Some(first) = segments.first() else { return Target::Outside };
        let imported = here.imports.iter().any(|import| import.name == *first);
        if here.children.contains(first) || imported {
            return self.descend(module, segments, depth);
        }
        Target::Outside
    }

    fn descend(&self, module: &ModulePath, segments: &[String], depth: usize) -> Target {
        let Some(here) = self.modules.get(module) else { return Target::Outside };
        let Some((first, rest)) = segments.split_first() else { return Target::Module(module.clone()) };
        if depth > FOLLOW_MAX {
            return Target::Outside;
        }
        if first == "*" {
            return Target::Module(module.clone());
        }
        let child: ModulePath = module.iter().chain([first]).cloned().collect();
        if here.children.contains(first) && self.modules.contains_key(&child) {
            return self.descend(&child, rest, depth);
        }
        if here.items.contains(first) {
            return Target::Item(module.clone());
        }
        let passed_on = here.imports.iter().filter_map(|import| match import.path.split_last() {
            Some((last, before)) if last == "*" => Some([before, segments].concat()),
            _ => (import.name == *first).then(|| [&import.path, rest].concat()),
        });
        for onwards in passed_on {
            match self.resolve(module, &onwards, depth + 1) {
                Target::Outside => {}
                found => return found,
            }
        }
        Target::Outside
    }
}

struct Reader<'a> {
    text: &'a dyn Fn(&str) -> Option<String>,
    modules: BTreeMap<ModulePath, Module>,
    texts: BTreeMap<String, TokenStream>,
}

impl Reader<'_> {
    /// Reads the file of a module, which has one of these two names.
    fn file(&mut self, module: ModulePath, file: &str, or: Option<&str>) -> Result<(), String> {
        let Some(text) = (self.text)(file) else {
            return or
                .map_or_else(|| Err(format!("{file}: not there")), |other| self.file(module, other, None));
        };
        let tokens: TokenStream = text.parse().map_err(|error| format!("{file}: {error}"))?;
        self.modules.insert(module.clone(), Module { file: file.to_owned(), ..Module::default() });
        self.texts.insert(file.to_owned(), tokens.clone());
        self.scan(tokens, &module, true)
    }

    /// The file of a module that is declared in another one's file.
    fn declared(&mut self, module: ModulePath) -> Result<(), String> {
        let path = module.join("/");
        self.file(module, &format!("{path}.rs"), Some(&format!("{path}/mod.rs")))
    }

    fn scan(&mut self, tokens: TokenStream, module: &ModulePath, items: bool) -> Result<(), String> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut public = false;
        while let Some(token) = tokens.get(at) {
            at = match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => after_attribute(&tokens, at),
                TokenTree::Punct(_) | TokenTree::Literal(_) => at + 1,
                TokenTree::Group(group) => {
                    self.scan(group.stream(), module, false)?;
                    at + 1
                }
                TokenTree::Ident(word) if word == "pub" => {
                    public = true;
                    at + 1 + usize::from(is_group(tokens.get(at + 1), Delimiter::Parenthesis))
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    self.word(&tokens, (at, &word), module, (items, std::mem::take(&mut public)))?
                }
            };
        }
        Ok(())
    }

    /// Reads what begins with a word, and says where that ends.
    fn word(
        &mut self,
        tokens: &[TokenTree],
        (at, word): (usize, &str),
        module: &ModulePath,
        (items, public): (bool, bool),
    ) -> Result<usize, String> {
        match (word, name_at(tokens, at + 1)) {
            ("use", Some(_)) => Ok(self.import(tokens, at + 1, module, public)),
            ("mod", Some(name)) if items => self.module(tokens, at + 2, module, name),
            ("macro_rules", None) if items => {
                self.here(module).items.extend(name_at(tokens, at + 2));
                Ok(at + 3)
            }
            (kind, Some(name)) if items && is_item(kind, &name) => {
                self.here(module).items.insert(name);
                Ok(at + 2)
            }
            _ => {
                let (segments, after) = path_at(tokens, at);
                let line = tokens.get(at).map_or(0, |token| token.span().start().line);
                let here = self.here(module);
                here.words.insert(word.to_owned());
                if segments.len() > 1 {
                    here.mentions.push(Mention { segments, line });
                }
                Ok(after)
            }
        }
    }

    fn here(&mut self, module: &ModulePath) -> &mut Module {
        self.modules.entry(module.clone()).or_default()
    }

    fn module(
        &mut self,
        tokens: &[TokenTree],
        at: usize,
        module: &ModulePath,
        name: String,
    ) -> Result<usize, String> {
        let child: ModulePath = module.iter().chain([&name]).cloned().collect();
        self.here(module).children.insert(name);
        if let Some(TokenTree::Group(body)) = tokens.get(at) {
            let file = self.here(module).file.clone();
            self.modules.insert(child.clone(), Module { file, ..Module::default() });
            self.scan(body.stream(), &child, true)?;
        } else {
            self.declared(child)?;
        }
        Ok(at + 1)
    }

    /// Reads a `use` from after its word, and says where it ends.
    fn import(&mut self, tokens: &[TokenTree], at: usize, module: &ModulePath, public: bool) -> usize {
        let rest = tokens.get(at..).unwrap_or_default();
        let length = rest.iter().position(|token| is_sign(token, ';')).unwrap_or(rest.len());
        let line = rest.first().map_or(0, |token| token.span().start().line);
        let mut leaves = Vec::new();
        tree(rest.get(..length).unwrap_or_default(), &[], &mut leaves);
        let imports = leaves.into_iter().map(|(name, path)| Import { name, path, public, line });
        self.here(module).imports.extend(imports);
        at + length + 1
    }
}

/// The names that a tree of imports brings, each with its path.
fn tree(tokens: &[TokenTree], before: &[String], leaves: &mut Vec<(String, Vec<String>)>) {
    for branch in tokens.split(|token| is_sign(token, ',')) {
        let mut path = before.to_vec();
        let mut name = None;
        let mut renamed = false;
        for token in branch {
            match token {
                TokenTree::Ident(word) if word == "as" => renamed = true,
                TokenTree::Ident(word) if renamed => name = Some(word.to_string()),
                // `use a::{self}` brings `a`.
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    tree(&inner, &path, leaves);
                    path.clear();
                }
                TokenTree::Punct(sign) if sign.as_char() == '*' => path.push("*".to_owned()),
                _ => {}
            }
        }
        if let Some(last) = path.last() {
            leaves.push((name.unwrap_or_else(|| last.clone()), path));
        }
    }
}

pub(crate) fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

pub(crate) fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// Where to go on behind a `#`: behind the whole item, if that is for tests only. What an attribute names (`serde(with = …)`)
/// is in a string, and left out.
pub(crate) fn after_attribute(tokens: &[TokenTree], at: usize) -> usize {
    match tokens.get(at + 1) {
        Some(TokenTree::Group(group)) if is_for_tests(group.stream()) => end_of_item(tokens, at + 2),
        _ => at + 2,
    }
}

pub(crate) fn name_at(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

fn is_item(kind: &str, name: &str) -> bool {
    let kinds = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];
    kinds.contains(&kind) && !["fn", "unsafe", "async", "extern"].contains(&name)
}

/// `#[cfg(test)]`, also with other conditions.
fn is_for_tests(attribute: TokenStream) -> bool {
    let text: String = attribute.to_string().split_whitespace().collect();
    text.starts_with("cfg(") && text.contains("test") && !text.contains("not(test")
}

/// Where the item ends that begins at `at`: after its `;` or its braces.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let mut ends_with_brace = true;
    for (position, token) in tokens.iter().enumerate().skip(at) {
        match token {
            TokenTree::Ident(word) if ["use", "static", "type"].iter().any(|kind| word == kind) => {
                ends_with_brace = false
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && ends_with_brace => {
                return position + 1;
            }
            token if is_sign(token, ';') => return position + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The path that begins at `at`, and where it ends.
pub(crate) fn path_at(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let mut segments: Vec<String> = name_at(tokens, at).into_iter().collect();
    let mut at = at + 1;
    while let (Some(TokenTree::Punct(first)), Some(second)) = (tokens.get(at), tokens.get(at + 1))
        && first.as_char() == ':'
        && first.spacing() == Spacing::Joint
        && is_sign(second, ':')
        && let Some(name) = name_at(tokens, at + 2)
    {
        segments.push(name);
        at += 3;
    }
    (segments, at)
}

/// Cycles of imports: the strongly connected components with more than one file, each sorted.
pub(crate) fn cycles(edges: &[Edge]) -> Vec<Vec<String>> {
    let mut next: HashMap<&str, Vec<&str>> = HashMap::new();
    for edge in edges {
        next.entry(&edge.from).or_default().push(&edge.to);
    }
    let reach = |start: &str| {
        let mut seen: HashSet<String> = HashSet::new();
        let mut todo = vec![start];
        while let Some(file) = todo.pop() {
            for &to in next.get(file).into_iter().flatten() {
                if seen.insert(to.to_owned()) {
                    todo.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, HashSet<String>> = next.keys().map(|file| (*file, reach(file))).collect();
    let mut cycles: Vec<Vec<String>> = Vec::new();
    for (file, seen) in &reached {
        let both = |other: &String| reached.get(other.as_str()).is_some_and(|back| back.contains(*file));
        let mut cycle: Vec<String> = seen.iter().filter(|other| both(other)).cloned().collect();
        cycle.sort();
        if cycle.len() > 1 && !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}
