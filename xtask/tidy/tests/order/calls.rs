//! The calls between files of a crate that need no import: inherent methods are found by their type, wherever it is used.
//!
//! Types are known as far as they are written down: that of `self` in an `impl`, of a parameter, of a field. Of another receiver
//! (the result of a call, a `let`), a method counts if one file alone defines its name, and no type of the standard library does.

use std::collections::{BTreeMap, HashMap, HashSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::source::{Crate, Edge, after_attribute, is_group, is_sign, name_at, path_at};

/// Methods of the standard library's types, and of traits that many types have: without a type they say nothing.
const COMMON: &str = "
    abs accept add advance all and_then any append as_bytes as_deref as_deref_mut as_mut as_ref as_slice as_str begin
    bind borrow borrow_mut bytes capacity chain chars checked_add checked_div checked_mul checked_sub clear clone cloned
    close cmp collect connect contains contains_key copied copy count default deref deref_mut difference display div
    drain drop elapsed end entry enumerate eq err expect extend extend_from_slice fetch_add fill filter filter_map find
    finish first flat_map flatten flush fmt fold for_each format from from_str get get_mut get_or_insert_with hash index
    insert inspect_err into into_inner into_iter is_empty is_err is_file is_none is_ok is_some is_some_and iter iter_mut
    join keys kind last len lines load lock map map_err map_or max max_by_key min mul name new next next_back next_if
    now nth ok ok_or open or or_else or_insert parse partial_cmp peek pop pop_front port position pow product push
    push_back push_front push_str put_slice read read_exact recv remove replace reserve resize retain rev run
    saturating_add saturating_sub send shift skip sort sort_by sort_by_key spawn split split_at split_off start
    starts_with status step stop store strip_prefix sub sum swap take then then_some to_owned to_string to_vec trim
    truncate try_from try_into unwrap unwrap_or unwrap_or_default unwrap_or_else update values wait wake windows with
    wrapping_add write write_all write_str zip";

/// Wrappers through which a method of their content is called.
const THROUGH: &[&str] = &["Arc", "Box", "Rc"];

/// The receiver of a call, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Receiver {
    /// A value of this type, or the type itself.
    Type(String),
    Unknown,
}

/// Files that define a method of this name, and its callers.
type Named<'a> = HashMap<&'a String, Vec<(&'a String, &'a Callers)>>;

/// The callers that a method can have.
#[derive(Debug, Clone)]
enum Callers {
    /// All in this module.
    Within(String),
    /// All that see this trait.
    OfTrait(String),
}

struct Call {
    file: String,
    line: usize,
    /// The receiver begins with a value of this type.
    start: Receiver,
    /// Behind it come these fields, one of the other.
    fields: Vec<String>,
    name: String,
}

/// The methods that `impl` blocks of a crate define, and the calls of its functions.
pub(crate) struct Calls<'c> {
    of: &'c Crate,
    /// Names that more than one module has.
    ambiguous: HashSet<&'c str>,
    /// Files that define a method of a type, by type and method, each with its callers.
    methods: HashMap<String, HashMap<String, BTreeMap<String, Callers>>>,
    /// Types of fields, by type and field; `None` if types of one name differ in it.
    fields: HashMap<String, HashMap<String, Option<String>>>,
    /// Traits of the crate.
    traits: HashSet<String>,
    /// Types that a type can be used as (`Deref`).
    below: HashMap<String, String>,
    calls: Vec<Call>,
}

impl<'c> Calls<'c> {
    pub(crate) fn read(of: &'c Crate) -> Self {
        let ambiguous = of.items().into_iter().filter(|(_, modules)| *modules > 1).map(|(name, _)| name);
        let mut calls = Self {
            of,
            ambiguous: ambiguous.collect(),
            methods: HashMap::new(),
            fields: HashMap::new(),
            traits: HashSet::new(),
            below: HashMap::new(),
            calls: Vec::new(),
        };
        for (file, tokens) in &of.texts {
            calls.walk(
                tokens.clone(),
                &Place { file, own: None, locals: &HashMap::new(), defines: Defines::Nothing },
            );
        }
        calls
    }

    /// Calls from one file to another.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let named = self.by_name();
        let mut edges: Vec<Edge> = self.calls.iter().filter_map(|call| self.edge(call, &named)).collect();
        edges.sort();
        edges.dedup();
        edges
    }

    /// The type that a file knows by this name. One of several types with the same name gets its file's name beside it.
    fn known(&self, file: &str, name: String) -> String {
        if !self.ambiguous.contains(name.as_str()) {
            return name;
        }
        let place = self.of.definition(file, &name).unwrap_or(file);
        format!("{name} of {place}")
    }

    fn typed_names(&self, file: &str, list: TokenStream) -> Vec<(String, Option<String>)> {
        let names = typed_names(list).into_iter();
        names.map(|(name, of)| (name, of.map(|of| self.known(file, of)))).collect()
    }

    fn edge(&self, call: &Call, named: &Named<'_>) -> Option<Edge> {
        let mut of = match &call.start {
            Receiver::Type(name) => Some(name.clone()),
            Receiver::Unknown => None,
        };
        for field in &call.fields {
            of = of.and_then(|of| self.field(&of, field));
        }
        let to = match of {
            Some(of) => self.method(&of, &call.name),
            None => self.visible(named.get(&call.name)?, &call.file),
        }?;
        let name = format!("{}()", call.name);
        (to != call.file).then(|| Edge { from: call.file.clone(), line: call.line, to, name })
    }

    /// The type itself, and those that it can be used as.
    fn chain<'a>(&'a self, of: &'a str) -> impl Iterator<Item = &'a str> {
        std::iter::successors(Some(of), |of| self.below.get(*of).map(String::as_str))
            .take(self.below.len() + 1)
    }

    fn field(&self, of: &str, field: &str) -> Option<String> {
        self.chain(of).find_map(|of| self.fields.get(of)?.get(field)).cloned().flatten()
    }

    /// The one file that defines the method for a type, or for the first type that it can be used as and that has it.
    fn method(&self, of: &str, name: &str) -> Option<String> {
        only(self.chain(of).find_map(|of| self.methods.get(of)?.get(name))?.keys())
    }

    /// The methods that are found by their name alone. A layer has none: wherever it is used, it is `self` or a parameter.
    fn by_name(&self) -> Named<'_> {
        let common: HashSet<&str> = COMMON.split_whitespace().collect();
        let layers: HashSet<&String> = self.below.iter().flat_map(|(above, below)| [above, below]).collect();
        let mut named = Named::new();
        for methods in self.methods.iter().filter(|(of, _)| !layers.contains(of)).map(|(_, methods)| methods)
        {
            for (name, files) in methods.iter().filter(|(name, _)| !common.contains(name.as_str())) {
                named.entry(name).or_default().extend(files);
            }
        }
        named
    }

    /// The one file that defines the method for any type, as far as it is visible.
    fn visible(&self, methods: &[(&String, &Callers)], from: &str) -> Option<String> {
        let module = module_of(from);
        let visible = methods.iter().filter(|(_, callers)| match callers {
            Callers::Within(outer) => is_within(&module, outer),
            // Types of other crates have the methods of their traits, too.
            Callers::OfTrait(name) => self.traits.contains(name),
        });
        only(visible.map(|(file, _)| *file))
    }

    fn walk(&mut self, tokens: TokenStream, place: &Place<'_>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at = match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => after_attribute(&tokens, at),
                TokenTree::Punct(_) | TokenTree::Literal(_) => at + 1,
                TokenTree::Group(group) => {
                    self.walk(group.stream(), &Place { defines: Defines::Nothing, ..*place });
                    at + 1
                }
                TokenTree::Ident(word) => self.word(&tokens, at, &word.to_string(), place),
            };
        }
    }

    /// Reads what begins with a word, and says where that ends.
    fn word(&mut self, tokens: &[TokenTree], at: usize, word: &str, place: &Place<'_>) -> usize {
        match word {
            "macro_rules" => at + 4,
            "above" if tokens.get(at + 1).is_some_and(|sign| is_sign(sign, '!')) => {
                self.layer(tokens.get(at + 2));
                at + 3
            }
            "impl" if begins_item(tokens, at) => self.implementation(tokens, at + 1, place),
            "struct" => self.structure(tokens, at + 1, place.file),
            "trait" => {
                self.traits.extend(name_at(tokens, at + 1));
                at + 1
            }
            "fn" if name_at(tokens, at + 1).is_some() => self.function(tokens, at + 1, place),
            _ => self.path(tokens, at, place),
        }
    }

    /// `above!(Clients, base: Base)` of the worker's layers.
    fn layer(&mut self, arguments: Option<&TokenTree>) {
        let Some(TokenTree::Group(group)) = arguments else { return };
        let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
        if let (Some(of), Some(field), Some(below)) =
            (name_at(&tokens, 0), name_at(&tokens, 2), name_at(&tokens, 4))
        {
            self.fields.entry(of.clone()).or_default().insert(field, Some(below.clone()));
            self.below.insert(of, below);
        }
    }

    fn implementation(&mut self, tokens: &[TokenTree], at: usize, place: &Place<'_>) -> usize {
        let Some(body) = (at..tokens.len()).find(|at| is_group(tokens.get(*at), Delimiter::Brace)) else {
            return at;
        };
        let head = tokens.get(behind_generics(tokens, at)..body).unwrap_or_default();
        let head = at_top(head);
        let end = head.iter().position(|token| is_word(token, "where")).unwrap_or(head.len());
        let head = head.get(..end).unwrap_or_default();
        let (of_trait, of) = match head.iter().position(|token| is_word(token, "for")) {
            Some(at) => (last_name(head.get(..at)), last_name(head.get(at + 1..))),
            None => (None, last_name(Some(head))),
        };
        let of = of.map(|of| self.known(place.file, of));
        let Some(TokenTree::Group(group)) = tokens.get(body) else { return body + 1 };
        if let (Some("Deref"), Some(of)) = (of_trait.as_deref(), &of) {
            let below = target(group.stream()).map(|below| self.known(place.file, below));
            self.below.extend(below.map(|below| (of.clone(), below)));
        }
        let locals = HashMap::new();
        let defines = of_trait.as_deref().map_or(Defines::Own, Defines::OfTrait);
        let within = Place { file: place.file, own: of.as_deref(), locals: &locals, defines };
        self.walk(group.stream(), &within);
        body + 1
    }

    /// The fields of a struct, which are of types of this crate or of others.
    fn structure(&mut self, tokens: &[TokenTree], at: usize, file: &str) -> usize {
        let Some(name) = name_at(tokens, at) else { return at };
        let name = self.known(file, name);
        let ends = |token: &TokenTree| {
            is_sign(token, ';')
                || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
        };
        let Some(length) = tokens.get(at..).and_then(|rest| rest.iter().position(ends)) else {
            return at + 1;
        };
        if let Some(TokenTree::Group(group)) = tokens.get(at + length) {
            for (field, of) in self.typed_names(file, group.stream()) {
                let known = self.fields.entry(name.clone()).or_default();
                let same = known.get(&field).is_none_or(|known| known.as_ref() == of.as_ref());
                known.insert(field, of.filter(|_| same));
            }
        }
        at + length + 1
    }

    /// A function: it is defined, its parameters have types, and its body is read with these.
    fn function(&mut self, tokens: &[TokenTree], at: usize, place: &Place<'_>) -> usize {
        let parameters = behind_generics(tokens, at + 1);
        let ends = |at: &usize| {
            is_group(tokens.get(*at), Delimiter::Brace)
                || tokens.get(*at).is_some_and(|token| is_sign(token, ';'))
        };
        let end = (parameters..tokens.len()).find(ends).unwrap_or(tokens.len());
        let (Some(TokenTree::Group(body)), Some(TokenTree::Group(list))) =
            (tokens.get(end), tokens.get(parameters))
        else {
            return end + 1;
        };
        let callers = match place.defines {
            Defines::Nothing => None,
            Defines::OfTrait(name) => Some(Callers::OfTrait(name.to_owned())),
            Defines::Own => Some(Callers::Within(visible_within(tokens, at - 1, &module_of(place.file)))),
        };
        if let (Some(callers), Some(of), Some(name)) = (callers, place.own, name_at(tokens, at)) {
            let methods = self.methods.entry(of.to_owned()).or_default();
            methods.entry(name).or_default().insert(place.file.to_owned(), callers);
        }
        let locals: HashMap<String, Option<String>> =
            self.typed_names(place.file, list.stream()).into_iter().collect();
        self.walk(body.stream(), &Place { locals: &locals, defines: Defines::Nothing, ..*place });
        end + 1
    }

    /// A path or a chain of fields, and the calls of methods in it.
    fn path(&mut self, tokens: &[TokenTree], at: usize, place: &Place<'_>) -> usize {
        let line = |at: usize| tokens.get(at).map_or(0, |token| token.span().start().line);
        let (segments, mut end) = path_at(tokens, at);
        if let [.., of, name] = segments.as_slice()
            && of.starts_with(char::is_uppercase)
        {
            let start = Receiver::Type(place.known(of).unwrap_or_else(|| self.known(place.file, of.clone())));
            self.call(place, line(at), (start, Vec::new()), name);
            return end;
        }
        let dotted =
            at.checked_sub(1).and_then(|before| tokens.get(before)).is_some_and(|sign| is_sign(sign, '.'));
        let known =
            segments.first().filter(|_| segments.len() == 1 && !dotted).and_then(|name| place.known(name));
        let mut receiver = (known.map_or(Receiver::Unknown, Receiver::Type), Vec::new());
        if dotted && segments.len() == 1 && is_call(tokens, end) {
            // Behind a call, an index or a `?`.
            self.call(place, line(at), receiver, segments.first().map_or("", String::as_str));
            return end;
        }
        while tokens.get(end).is_some_and(|sign| is_sign(sign, '.'))
            && let Some(name) = name_at(tokens, end + 1)
        {
            end += 2;
            if is_call(tokens, end) {
                self.call(place, line(end - 1), receiver, &name);
                return end;
            }
            receiver.1.push(name);
        }
        end
    }

    fn call(&mut self, place: &Place<'_>, line: usize, receiver: (Receiver, Vec<String>), name: &str) {
        let (start, fields) = receiver;
        self.calls.push(Call { file: place.file.to_owned(), line, start, fields, name: name.to_owned() });
    }
}

/// Where a token stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    /// The type of the `impl` block.
    own: Option<&'a str>,
    /// Parameters, with their types; `None` for a type that is more than a name.
    locals: &'a HashMap<String, Option<String>>,
    defines: Defines<'a>,
}

/// Functions that stand directly here are methods.
#[derive(Clone, Copy)]
enum Defines<'a> {
    Nothing,
    Own,
    OfTrait(&'a str),
}

impl Place<'_> {
    /// The type of a name. A type without a name, such as a tuple, has no methods.
    fn known(&self, name: &str) -> Option<String> {
        match name {
            "self" | "Self" => self.own.map(str::to_owned),
            _ => self.locals.get(name).cloned().flatten(),
        }
    }
}

fn only<'a>(mut files: impl Iterator<Item = &'a String>) -> Option<String> {
    let first = files.next()?;
    files.all(|other| other == first).then(|| first.clone())
}

/// The module of a file, as a path from the root: `a/b` of `a/b.rs` or `a/b/mod.rs`.
fn module_of(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { String::new() } else { path.to_owned() }
}

fn is_within(module: &str, outer: &str) -> bool {
    outer.is_empty()
        || module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The module that sees the function whose `fn` stands here.
fn visible_within(tokens: &[TokenTree], at: usize, module: &str) -> String {
    let qualifies = |token: &TokenTree| {
        matches!(token, TokenTree::Literal(_))
            || ["async", "const", "extern", "unsafe"].iter().any(|word| is_word(token, word))
    };
    let mut before = tokens.get(..at).unwrap_or_default().iter().rev().skip_while(|token| qualifies(token));
    match (before.next(), before.next()) {
        (Some(token), _) if is_word(token, "pub") => String::new(),
        (Some(TokenTree::Group(group)), Some(token)) if is_word(token, "pub") => {
            match group.to_string().as_str() {
                "(super)" => module.rsplit_once('/').map(|(parent, _)| parent.to_owned()).unwrap_or_default(),
                "(self)" => module.to_owned(),
                _ => String::new(),
            }
        }
        _ => module.to_owned(),
    }
}

fn is_word(token: &TokenTree, wanted: &str) -> bool {
    matches!(token, TokenTree::Ident(word) if word == wanted)
}

/// An item can begin here, rather than a type (`-> impl Iterator`).
fn begins_item(tokens: &[TokenTree], at: usize) -> bool {
    match at.checked_sub(1).and_then(|before| tokens.get(before)) {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::None,
        Some(TokenTree::Ident(word)) => ["pub", "unsafe"].iter().any(|before| word == before),
        Some(sign) => is_sign(sign, ';'),
    }
}

/// Arguments, also behind a turbofish.
fn is_call(tokens: &[TokenTree], at: usize) -> bool {
    let double = [at, at + 1].iter().all(|at| tokens.get(*at).is_some_and(|sign| is_sign(sign, ':')));
    is_group(tokens.get(at), Delimiter::Parenthesis) || double
}

/// The depth in angle brackets behind a token. The `>` of an arrow closes none.
fn depth(tokens: &[TokenTree], at: usize, before: usize) -> usize {
    match tokens.get(at) {
        Some(sign) if is_sign(sign, '<') => before + 1,
        Some(sign) if is_sign(sign, '>') && !is_arrow(tokens, at) => before.saturating_sub(1),
        _ => before,
    }
}

fn is_arrow(tokens: &[TokenTree], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    matches!(before, Some(TokenTree::Punct(sign)) if sign.as_char() == '-' && sign.spacing() == Spacing::Joint)
}

/// Where to go on behind `<…>`, if there are any.
fn behind_generics(tokens: &[TokenTree], at: usize) -> usize {
    let mut deep = 0;
    for next in at..tokens.len() {
        deep = depth(tokens, next, deep);
        if deep == 0 {
            return if next == at { at } else { next + 1 };
        }
    }
    tokens.len()
}

/// The tokens that are not in angle brackets.
fn at_top(tokens: &[TokenTree]) -> Vec<TokenTree> {
    let (mut top, mut deep) = (Vec::new(), 0);
    for (at, token) in tokens.iter().enumerate() {
        let now = depth(tokens, at, deep);
        if deep == 0 && now == 0 {
            top.push(token.clone());
        }
        deep = now;
    }
    top
}

fn last_name(tokens: Option<&[TokenTree]>) -> Option<String> {
    tokens?.iter().rev().find_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    })
}

/// The type of `type Target = …` in the body of a `Deref`.
fn target(body: TokenStream) -> Option<String> {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let at = tokens.iter().position(|token| is_word(token, "Target"))?;
    let length = tokens.get(at..)?.iter().position(|token| is_sign(token, ';'))?;
    name_of_type(tokens.get(at + 2..at + length)?)
}

/// The name of a type, through references and pointers to it; `None` if it is more than a name.
fn name_of_type(tokens: &[TokenTree]) -> Option<String> {
    let top = at_top(tokens);
    let name = last_name(Some(&top))?;
    if THROUGH.contains(&name.as_str()) {
        let begin = tokens.iter().position(|token| is_sign(token, '<'))?;
        return name_of_type(tokens.get(begin + 1..tokens.len().checked_sub(1)?)?);
    }
    let plain = top.iter().all(|token| !matches!(token, TokenTree::Group(_)));
    plain.then_some(name)
}

/// `name: Type` of parameters or fields.
fn typed_names(list: TokenStream) -> Vec<(String, Option<String>)> {
    let tokens: Vec<TokenTree> = list.into_iter().collect();
    let (mut parts, mut begin, mut deep) = (Vec::new(), 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        deep = depth(&tokens, at, deep);
        if deep == 0 && is_sign(token, ',') {
            parts.push(begin..at);
            begin = at + 1;
        }
    }
    parts.push(begin..tokens.len());
    let named = |part: &[TokenTree]| {
        let colon = part.iter().position(|token| is_sign(token, ':'))?;
        Some((last_name(part.get(..colon))?, name_of_type(part.get(colon + 1..)?)))
    };
    parts.into_iter().filter_map(|part| named(tokens.get(part)?)).collect()
}

/// Calls from `a.rs`, which has this text, to other files of a crate.
fn calls_of(text: &str) -> Vec<String> {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", text),
        (
            "b.rs",
            "pub struct Low; impl Low { pub fn low(&self) {} pub fn both(&self) {} pub fn next(&self) {} fn hidden(&self) {} }",
        ),
        (
            "c.rs",
            "pub struct High { pub part: Rc<Part>, low: Low } pub(crate) struct Part(u8);
             impl Deref for High { type Target = Low; }
             impl<'a> High { pub(super) fn high<T: Into<u8>>(&mut self) -> impl Sized {} }
             #[cfg(test)] mod tests { impl High { fn high(&self) {} } }",
        ),
        (
            "d.rs",
            "impl Foreign for Part { fn both(&self) {} fn of_foreign(&self) {} } use crate::c::Part;
             impl Part { pub fn apart() {} } struct Twin; impl Twin { fn twin(&self) {} }",
        ),
        ("e.rs", "pub(crate) struct Twin; impl Twin { pub fn twin(&self) {} }"),
    ];
    let source = |file: &str| Some(files.iter().find(|(name, _)| *name == file)?.1.to_owned());
    let of = Crate::of(&source).expect("it can be read");
    let edges = Calls::read(&of).edges();
    edges.iter().filter(|edge| edge.from == "a.rs").map(|edge| format!("{} {}", edge.name, edge.to)).collect()
}

#[test]
fn a_call_is_found_by_the_type_of_its_receiver() {
    for (text, found) in [
        ("impl High { fn f(&self) { self.high(); } }", "high() c.rs"),
        ("impl<T> a::High<T> where T: X { fn f(&self) { if x { vec![self.low()] } } }", "low() b.rs"),
        ("impl High { fn f(&self) { self.both(); self.part.both(); } }", "both() b.rs, both() d.rs"),
        ("impl High { fn f(&self) { self.low.next(); Self::high(); } }", "next() b.rs, high() c.rs"),
        ("fn f(a: &mut High, b: &[High]) { a.next(); b.next(); a.both::<u8>() }", "both() b.rs, next() b.rs"),
        ("fn f() { Part::apart(); Part::none(); Low::hidden }", "hidden() b.rs, apart() d.rs"),
        ("use crate::e::Twin; fn f(a: &mut Twin) { a.twin() }", "twin() e.rs"),
        // Of an unknown type: the one method of this name, if it can be that. Layers always have their type beside them.
        ("fn f() { let x = g(); x.high(); g().low(); }", ""),
        ("fn f() { let x = g(); x.next(); x.both(); x.hidden(); x.of_foreign(); x.apart() }", "apart() d.rs"),
        ("#[cfg(test)] fn f(a: High) { a.low() } // a.low()\nfn g() -> &str { \"Part::apart()\" }", ""),
    ] {
        assert_eq!(calls_of(text).join(", "), found, "{text}");
    }
}
