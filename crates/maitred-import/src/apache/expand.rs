//! What stands for other lines: `Include`, `IfModule`, `IfDefine`, `IfVersion`, `Define`, `Macro`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::modules;
use super::tree::{Directive, parse};
use crate::files;
use crate::report::{Kind, Report};

/// Files within one another, at most.
const DEPTH_MAX: usize = 12;
/// Included files, at most, and directives of all files together.
const FILES_MAX: usize = 2000;
const DIRECTIVES_MAX: usize = 100_000;
/// The longest word that variables may make, in bytes.
const WORD_MAX: usize = 64 << 10;

/// What Debian's `envvars` sets before httpd starts.
const DEBIAN: &[(&str, &str)] = &[
    ("APACHE_LOG_DIR", "/var/log/apache2"),
    ("APACHE_RUN_DIR", "/var/run/apache2"),
    ("APACHE_LOCK_DIR", "/var/lock/apache2"),
    ("APACHE_PID_FILE", "/var/run/apache2/apache2.pid"),
    ("APACHE_RUN_USER", "www-data"),
    ("APACHE_RUN_GROUP", "www-data"),
];

/// Reads files with all that they stand for.
pub(crate) struct Loader<'a> {
    root: Option<&'a Path>,
    /// Whether files may be looked at.
    pub(crate) looks: bool,
    server_root: Option<String>,
    base: PathBuf,
    defined: Vec<String>,
    variables: HashMap<String, String>,
    macros: HashMap<String, Directive>,
    /// Modules that were loaded by `LoadModule`, by their names.
    pub(crate) loaded: Vec<String>,
    files: usize,
    directives: usize,
    open: Vec<PathBuf>,
}

impl<'a> Loader<'a> {
    /// For what was named on the command line.
    pub(crate) fn new(root: Option<&'a Path>, defined: &[String], looks: bool) -> Loader<'a> {
        let variables = DEBIAN.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        // `NAME=VALUE` stands for a variable of the environment.
        let given = defined.iter().filter_map(|word| word.split_once('='));
        let variables = variables.chain(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Loader {
            root,
            looks,
            server_root: None,
            base: PathBuf::new(),
            defined: defined.to_vec(),
            variables: variables.collect(),
            macros: HashMap::new(),
            loaded: Vec::new(),
            files: 0,
            directives: 0,
            open: Vec::new(),
        }
    }

    /// Where a path of the configuration is on this machine.
    pub(crate) fn below(&self, path: &str) -> PathBuf {
        files::below(self.root, Path::new(path))
    }

    /// A path of the configuration that may begin at `ServerRoot`.
    pub(crate) fn absolute(&self, path: &str) -> String {
        match (path.starts_with('/'), &self.server_root) {
            (false, Some(root)) => format!("{}/{path}", root.trim_end_matches('/')),
            (false, None) => self.base.join(path).display().to_string(),
            (true, _) => path.to_owned(),
        }
    }

    /// The directives of a file that was named.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong.
    pub(crate) fn load(&mut self, path: &Path, report: &mut Report) -> Result<Vec<Directive>, String> {
        let text = files::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let name: Rc<str> = path.display().to_string().into();
        report.read(&name, &text);
        let directives = parse(&name, &text).map_err(|(why, line)| format!("{name}:{line}: {why}"))?;
        self.base = path.parent().unwrap_or(Path::new("")).to_owned();
        self.open.push(path.canonicalize().unwrap_or_default());
        let all = self.expand(directives, 0, report);
        self.open.pop();
        Ok(all)
    }

    /// The directives in the place of which these stand.
    pub(crate) fn expand(
        &mut self,
        all: Vec<Directive>,
        depth: usize,
        report: &mut Report,
    ) -> Vec<Directive> {
        let mut found = Vec::with_capacity(all.len());
        for mut one in all {
            self.directives += 1;
            if depth >= DEPTH_MAX * 4 || self.directives > DIRECTIVES_MAX {
                report.say(
                    &one.place,
                    &one.shown,
                    Kind::NotPossible,
                    "files, macros and sections are too many",
                );
                continue;
            }
            self.fill(&mut one, report);
            let named = one.arg(0).trim_start_matches('!').to_owned();
            let holds = match one.name.as_str() {
                "include" | "includeoptional" => {
                    found.extend(self.included(&one, depth, report));
                    continue;
                }
                "define" | "undefine" | "macro" | "undefmacro" | "serverroot" | "loadmodule" => {
                    self.note(&one, report);
                    continue;
                }
                "use" => {
                    found.extend(self.used(&one, depth, report));
                    continue;
                }
                "ifdefine" => Some(self.is_defined(&named)),
                "ifversion" => version(&one),
                "iffile" => Some(self.looks && self.below(&self.absolute(&named)).exists()),
                "ifmodule" => Some(modules::is_there(&named, &self.loaded)),
                _ => {
                    one.block = one.block.map(|inside| self.expand(inside, depth + 1, report));
                    found.push(one);
                    continue;
                }
            };
            found.extend(self.decided(one, holds, depth, report));
        }
        found
    }

    /// What is in a section whose condition holds.
    fn decided(
        &mut self,
        one: Directive,
        holds: Option<bool>,
        depth: usize,
        report: &mut Report,
    ) -> Vec<Directive> {
        let Some(holds) = holds else {
            report.say(&one.place, &one.shown, Kind::NotPossible, "this comparison is not known");
            return Vec::new();
        };
        let negated = one.arg(0).starts_with('!');
        match holds != negated {
            true => {
                report.say(&one.place, &one.shown, Kind::Translated, "what is in it holds");
                self.expand(one.block.unwrap_or_default(), depth + 1, report)
            }
            // Whether a module that is not there matters, is known only with the rest.
            false if one.name == "ifmodule" && !negated => vec![one],
            false => {
                report.say(&one.place, &one.shown, Kind::NotNeeded, "the condition does not hold");
                without(&one, report, "the condition around it does not hold");
                Vec::new()
            }
        }
    }

    /// The same with what stands in `<IfModule>` of PHP, for a PHP that runs in httpd.
    pub(crate) fn opened(&mut self, all: Vec<Directive>, report: &mut Report) -> Vec<Directive> {
        let mut found = Vec::with_capacity(all.len());
        for mut one in all {
            if one.name == "ifmodule" && modules::is_php(one.arg(0)) {
                report.say(
                    &one.place,
                    &one.shown,
                    Kind::Choice,
                    "PHP runs the scripts, and what the block says holds for its version, whatever that is",
                );
                let inside = self.expand(one.block.unwrap_or_default(), 1, report);
                found.extend(self.opened(inside, report));
                continue;
            }
            one.block = one.block.map(|inside| self.opened(inside, report));
            found.push(one);
        }
        found
    }

    fn is_defined(&self, name: &str) -> bool {
        self.defined.iter().any(|known| known == name)
    }

    /// Puts values in the place of `${NAME}`.
    fn fill(&self, one: &mut Directive, report: &mut Report) {
        for arg in one.args.iter_mut().filter(|arg| arg.contains("${")) {
            let mut out = String::new();
            let whole = arg.clone();
            let mut rest = whole.as_str();
            while let Some((before, from)) = rest.split_once("${") {
                out.push_str(before);
                let Some((name, after)) = from.split_once('}') else {
                    out.push_str("${");
                    rest = from;
                    continue;
                };
                match self.variables.get(name) {
                    Some(value) => out.push_str(value),
                    None => {
                        report.say(
                            &one.place,
                            &one.shown,
                            Kind::NotPossible,
                            format!("`{name}` has no value: `--defined {name}=VALUE` gives it one"),
                        );
                        out.push_str(name);
                    }
                }
                rest = after;
            }
            out.push_str(rest);
            *arg = if out.len() > WORD_MAX { String::new() } else { out };
        }
    }

    fn note(&mut self, one: &Directive, report: &mut Report) {
        match one.name.as_str() {
            "define" => {
                self.defined.push(one.arg(0).to_owned());
                if one.args.len() > 1 && one.arg(1).len() <= WORD_MAX {
                    self.variables.insert(one.arg(0).to_owned(), one.arg(1).to_owned());
                }
            }
            "undefine" => {
                self.defined.retain(|name| name != one.arg(0));
                self.variables.remove(one.arg(0));
            }
            "macro" => {
                self.macros.insert(one.arg(0).to_ascii_lowercase(), one.clone());
            }
            "undefmacro" => {
                self.macros.remove(&one.arg(0).to_ascii_lowercase());
            }
            "serverroot" => self.server_root = Some(one.arg(0).to_owned()),
            _ => {
                self.loaded.push(one.arg(0).to_ascii_lowercase());
                let why = "modules of httpd are not loaded: what their directives say is";
                return report.say(&one.place, &one.shown, Kind::NotNeeded, why);
            }
        }
        report.say(&one.place, &one.shown, Kind::Translated, "where it is used");
    }

    /// The lines of a macro, with words in the place of its parameters.
    fn used(&mut self, one: &Directive, depth: usize, report: &mut Report) -> Vec<Directive> {
        let Some(known) = self.macros.get(&one.arg(0).to_ascii_lowercase()).cloned() else {
            report.say(&one.place, &one.shown, Kind::NotPossible, "there is no such macro");
            return Vec::new();
        };
        if known.args.len() != one.args.len() {
            report.say(
                &one.place,
                &one.shown,
                Kind::NotPossible,
                "the macro has another number of parameters",
            );
            return Vec::new();
        }
        report.say(&one.place, &one.shown, Kind::Translated, "");
        // Longer names first: `$name` is no `$n` with letters behind it.
        let mut pairs: Vec<(&String, &String)> =
            known.args.iter().skip(1).zip(one.args.iter().skip(1)).collect();
        pairs.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut lines = known.block.clone().unwrap_or_default();
        lines.iter_mut().for_each(|line| replace(line, &pairs, 0));
        self.expand(lines, depth + 4, report)
    }

    fn included(&mut self, one: &Directive, depth: usize, report: &mut Report) -> Vec<Directive> {
        let mut say = |kind, why: &str| report.say(&one.place, &one.shown, kind, why);
        if !self.looks {
            say(Kind::NotPossible, "no files are looked up for a text");
            return Vec::new();
        }
        if depth >= DEPTH_MAX || self.files >= FILES_MAX {
            say(Kind::NotPossible, "too many files include one another");
            return Vec::new();
        }
        let found = self.find(one.arg(0));
        if found.is_empty() {
            match one.arg(0).contains(['*', '?', '[']) {
                true => say(Kind::NotNeeded, "no file matches, so that nothing is included"),
                false if one.name == "includeoptional" => {
                    say(Kind::NotNeeded, "there is no such file, and httpd does without it");
                }
                false => say(Kind::NotPossible, "there is no such file: what it says is not in the output"),
            }
            return Vec::new();
        }
        say(Kind::Translated, "");
        let mut all = Vec::new();
        for path in found {
            self.files += 1;
            let own = path.canonicalize().unwrap_or_default();
            if self.open.contains(&own) || self.files > FILES_MAX {
                report.say(&one.place, &one.shown, Kind::NotPossible, "the file includes itself");
                continue;
            }
            let name: Rc<str> = self.shown(&path).into();
            let text = files::read(&path).map_err(|error| error.to_string());
            let parsed = text.and_then(|text| {
                report.read(&name, &text);
                parse(&name, &text).map_err(|(why, line)| format!("line {line}: {why}"))
            });
            match parsed {
                Ok(directives) => {
                    self.open.push(own);
                    all.extend(self.expand(directives, depth + 1, report));
                    self.open.pop();
                }
                Err(why) => {
                    let why = format!("{name} cannot be read: {why}");
                    report.say(&one.place, &one.shown, Kind::NotPossible, why);
                }
            }
        }
        all
    }

    /// Files that a pattern names. A relative one begins at `ServerRoot`, or where the named file stands, or above that.
    fn find(&self, pattern: &str) -> Vec<PathBuf> {
        let mut candidates = Vec::new();
        match (pattern.starts_with('/'), &self.server_root) {
            (true, _) => candidates.push(self.below(pattern)),
            (false, Some(root)) => candidates.push(self.below(root).join(pattern)),
            (false, None) => candidates.extend([self.base.join(pattern), self.base.join("..").join(pattern)]),
        }
        let found = candidates.iter().map(|path| files::matching(path)).find(|found| !found.is_empty());
        let mut all: Vec<PathBuf> = Vec::new();
        for path in found.unwrap_or_default() {
            match path.is_dir() {
                true => {
                    all.extend(files::matching(&path.join("*")).into_iter().filter(|path| !path.is_dir()))
                }
                false => all.push(path),
            }
        }
        if let Some(root) = self.root.map(|root| root.canonicalize().unwrap_or_else(|_| root.to_owned())) {
            all.retain(|path| path.canonicalize().is_ok_and(|path| path.starts_with(&root)));
        }
        all
    }

    /// How a file is named in the report.
    pub(crate) fn shown(&self, path: &Path) -> String {
        match self.root.and_then(|root| path.strip_prefix(root).ok()) {
            Some(inside) => format!("/{}", inside.display()),
            None => path.to_string_lossy().replace("/../", "/"),
        }
    }
}

/// Says of all that is in a section that it has no effect.
pub(crate) fn without(section: &Directive, report: &mut Report, why: &str) {
    for one in section.inside() {
        report.say(&one.place, &one.shown, Kind::NotNeeded, why);
        without(one, report, why);
    }
}

fn replace(line: &mut Directive, pairs: &[(&String, &String)], depth: usize) {
    for (name, value) in pairs {
        for word in &mut line.args {
            if word.contains(name.as_str()) && word.len() + value.len() < WORD_MAX {
                *word = word.replace(name.as_str(), value);
            }
        }
        if line.shown.contains(name.as_str()) && line.shown.len() + value.len() < WORD_MAX {
            line.shown = line.shown.replace(name.as_str(), value);
        }
    }
    if let Some(block) = line.block.as_mut().filter(|_| depth < 50) {
        block.iter_mut().for_each(|line| replace(line, pairs, depth + 1));
    }
}

/// Whether `<IfVersion>` holds for the newest version of 2.4.
fn version(one: &Directive) -> Option<bool> {
    let (how, than) = match one.args.as_slice() {
        [than] => ("=", than),
        [how, than] => (how.trim_start_matches('!'), than),
        _ => return None,
    };
    let parts = than.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let own: Vec<u32> = [2, 4, 66].into_iter().take(parts.len()).collect();
    Some(match how {
        "=" | "==" => own == parts,
        ">" => own > parts,
        ">=" => own >= parts,
        "<" => own < parts,
        "<=" => own <= parts,
        _ => return None,
    })
}
