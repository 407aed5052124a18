//! Files of an nginx configuration, with what they include in its place.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::shipped;
use super::tree::{Directive, parse};
use crate::files;
use crate::report::{Kind, Report};

/// Files within one another, at most: a file may include itself.
const DEPTH_MAX: usize = 12;
/// Included files, at most, and directives of all files together: what includes two others doubles with each level.
const FILES_MAX: usize = 2000;
const DIRECTIVES_MAX: usize = 200_000;

/// Reads files with their includes.
pub(crate) struct Loader<'a> {
    /// Below which absolute paths are looked up.
    pub(crate) root: Option<&'a Path>,
    /// Where relative ones may start.
    pub(crate) bases: Vec<PathBuf>,
    files: usize,
    directives: usize,
    /// Files that are being read: what includes itself is read once.
    open: Vec<PathBuf>,
}

impl<'a> Loader<'a> {
    /// For a file that was named.
    pub(crate) fn new(file: &Path, root: Option<&'a Path>) -> Loader<'a> {
        let own = file.parent().unwrap_or(Path::new("")).to_owned();
        // A site of `sites-available` names files from the directory above.
        let mut bases = vec![own.clone(), own.join("..")];
        let usual = [Path::new("/etc/nginx"), Path::new("/usr/local/nginx/conf"), Path::new("/")];
        bases.extend(
            usual.iter().take(if root.is_some() { 3 } else { 1 }).map(|path| files::below(root, path)),
        );
        Loader { root, bases, files: 0, directives: 0, open: Vec::new() }
    }

    /// The directives of a file that was named.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong.
    pub(crate) fn load(&mut self, path: &Path, report: &mut Report) -> Result<Vec<Directive>, String> {
        let text = files::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let name: Rc<str> = path.display().to_string().into();
        report.read(&name, &text);
        let directives =
            parse(&name, &text).map_err(|wrong| format!("{name}:{}: {}", wrong.line, wrong.message))?;
        self.open.push(path.canonicalize().unwrap_or_default());
        Ok(self.expand(directives, 0, report))
    }

    fn expand(&mut self, directives: Vec<Directive>, depth: usize, report: &mut Report) -> Vec<Directive> {
        let mut all = Vec::with_capacity(directives.len());
        for mut directive in directives {
            self.directives += 1;
            if directive.name == "include" && directive.block.is_none() {
                all.extend(self.included(&directive, depth, report));
                continue;
            }
            directive.block = directive.block.map(|inside| self.expand(inside, depth, report));
            all.push(directive);
        }
        all
    }

    fn included(&mut self, directive: &Directive, depth: usize, report: &mut Report) -> Vec<Directive> {
        let shown = directive.shown();
        let mut say = |kind, why: &str| report.say(&directive.place, &shown, kind, why);
        let pattern = directive.arg(0);
        if depth >= DEPTH_MAX || self.files >= FILES_MAX || self.directives >= DIRECTIVES_MAX {
            say(Kind::NotPossible, "too many files include one another");
            return Vec::new();
        }
        let found = self.find(pattern);
        if found.is_empty() {
            if let Some(text) = shipped::text(pattern) {
                say(Kind::Translated, "not there: taken as shipped");
                self.files += 1;
                let name: Rc<str> = format!("{pattern} (as shipped)").into();
                let directives = parse(&name, &text).unwrap_or_default();
                return self.expand(directives, depth + 1, report);
            }
            match pattern.contains(['*', '?', '[']) {
                true => say(Kind::NotNeeded, "no file matches, so that nothing is included"),
                false => say(Kind::NotPossible, "there is no such file: what it says is not in the output"),
            }
            return Vec::new();
        }
        say(Kind::Translated, "");
        let mut all = Vec::new();
        for path in found {
            self.files += 1;
            if path.canonicalize().is_ok_and(|path| self.open.contains(&path)) {
                report.say(&directive.place, &shown, Kind::NotPossible, "the file includes itself");
                continue;
            }
            let name: Rc<str> = self.shown(&path).into();
            let read = files::read(&path).map_err(|error| error.to_string());
            match read.and_then(|text| {
                report.read(&name, &text);
                parse(&name, &text).map_err(|wrong| format!("line {}: {}", wrong.line, wrong.message))
            }) {
                Ok(directives) if self.directives < DIRECTIVES_MAX => {
                    self.open.push(path.canonicalize().unwrap_or_default());
                    all.extend(self.expand(directives, depth + 1, report));
                    self.open.pop();
                }
                Ok(_) => report.say(&directive.place, &shown, Kind::NotPossible, "it is too much"),
                Err(why) => {
                    report.say(
                        &directive.place,
                        &shown,
                        Kind::NotPossible,
                        format!("{name} cannot be read: {why}"),
                    );
                }
            }
        }
        all
    }

    fn find(&self, pattern: &str) -> Vec<PathBuf> {
        let path = Path::new(pattern);
        if path.is_absolute() {
            return self.inside(files::matching(&files::below(self.root, path)));
        }
        let found = self.bases.iter().map(|base| files::matching(&base.join(path)));
        self.inside(found.into_iter().find(|found| !found.is_empty()).unwrap_or_default())
    }

    /// Without what a link or `..` leads out of the root to.
    fn inside(&self, mut found: Vec<PathBuf>) -> Vec<PathBuf> {
        found.retain(|path| !path.is_dir());
        let Some(root) = self.root.map(|root| root.canonicalize().unwrap_or_else(|_| root.to_owned())) else {
            return found;
        };
        found.retain(|path| path.canonicalize().is_ok_and(|path| path.starts_with(&root)));
        found
    }

    fn shown(&self, path: &Path) -> String {
        let short = path.to_string_lossy();
        match self.root.and_then(|root| path.strip_prefix(root).ok()) {
            Some(inside) => format!("/{}", inside.display()),
            None => short.replace("/../", "/"),
        }
    }
}
