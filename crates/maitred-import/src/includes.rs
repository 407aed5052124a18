//! The directives of an nginx configuration with what it includes in its place, before anything is translated.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{files, nginx};

/// Files within one another, and files in all: a file may include itself.
const DEPTH_MAX: usize = 12;
const FILES_MAX: usize = 2000;

/// The directives of a file, as `nginx::directives` gives them. Absolute paths are looked up below `root`, if one is given.
/// What is included and is not there, or cannot be read, is left out: nginx itself says so.
///
/// # Errors
/// The file cannot be read, or is none of nginx.
pub(crate) fn directives(file: &Path, root: Option<&Path>) -> Result<Value, String> {
    let text = files::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let found = nginx::directives(&text).map_err(|why| format!("{}:{why}", file.display()))?;
    let own = file.parent().unwrap_or(Path::new("")).to_owned();
    // A site of `sites-available` names files from the directory above.
    let bases = vec![own.clone(), own.join(".."), files::below(root, Path::new("/etc/nginx"))];
    Ok(Expander { root, bases, files: 0 }.expand(found, 0))
}

struct Expander<'a> {
    root: Option<&'a Path>,
    bases: Vec<PathBuf>,
    files: usize,
}

impl Expander<'_> {
    fn expand(&mut self, directives: Value, depth: usize) -> Value {
        let Value::Array(directives) = directives else { return directives };
        let mut all = Vec::with_capacity(directives.len());
        for mut directive in directives {
            let pattern = directive.get(1).and_then(|args| args.get(0)).and_then(Value::as_str);
            match (directive.get(0).and_then(Value::as_str), pattern) {
                (Some("include"), Some(pattern)) => {
                    let pattern = pattern.to_owned();
                    all.extend(self.included(&pattern, depth));
                }
                _ => {
                    if let Some(inside) = directive.get_mut(3).filter(|inside| inside.is_array()) {
                        *inside = self.expand(inside.take(), depth);
                    }
                    all.push(directive);
                }
            }
        }
        Value::Array(all)
    }

    fn included(&mut self, pattern: &str, depth: usize) -> Vec<Value> {
        let mut all = Vec::new();
        for file in self.find(Path::new(pattern)) {
            self.files += 1;
            if depth >= DEPTH_MAX || self.files > FILES_MAX {
                break;
            }
            let read = files::read(&file).ok().and_then(|text| nginx::directives(&text).ok());
            if let Some(Value::Array(found)) = read.map(|found| self.expand(found, depth + 1)) {
                all.extend(found);
            }
        }
        all
    }

    fn find(&self, path: &Path) -> Vec<PathBuf> {
        let mut found = if path.is_absolute() {
            files::matching(&files::below(self.root, path))
        } else {
            let found = self.bases.iter().map(|base| files::matching(&base.join(path)));
            found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
        };
        found.retain(|path| !path.is_dir());
        found
    }
}
