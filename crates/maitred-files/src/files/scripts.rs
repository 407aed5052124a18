//! Directories in which scripts stand beside files: what a path stands for, and which names are never served.
//!
//! With a front controller of the route, that runs for every path, if it is there: nothing of the path is looked at. Otherwise:
//!
//! | path, below the mount | stands there | runs |
//! |---|---|---|
//! | names a script (`/a.php`, `/a.php/x`) | the script | it |
//! | | no such file | 404 |
//! | is none (`/.php`, `/a.PHP`, with NUL) | | 404 |
//! | ends in `/` | a directory with `index` | that |
//! | any, with `php`, GET and HEAD | a file, or a directory with an index file | the file server |
//! | the same without its slash | a directory with `index`, or with an index file | 301 |
//! | any, with `php` | nothing of these | `index` below the root |
//! | any, without `php` | nothing of the first four | 404 |
//!
//! Whether a script exists is looked at here, and not left to the application: PHP would run `/upload/evil.jpg` for
//! `/upload/evil.jpg/x.php` (see [`script`]). The script need not be readable for this process: its source is not read here.

use maitred_http::fastcgi::script::{self, ENDING, Script};
use rustix::fs::OFlags;

use super::resolve::{MayWait, Miss, Node, below_prefix, has_hidden_segment, open_as};
use super::set::FileSet;
use super::sources::is_source;

/// The rules of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptRules<'s> {
    /// The script of a directory, and the one for what is neither script nor file.
    pub index: &'s [u8],
    /// Files are served, and everything else is given to `index`.
    pub php: bool,
    /// The script that answers all requests of the route, as a path below the root that begins with `/`.
    pub front: Option<&'s [u8]>,
}

/// What helper threads look for: the same, for longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedScript {
    /// The path of the request.
    pub path: Box<[u8]>,
    /// [`ScriptRules::index`]
    pub index: Box<[u8]>,
    /// [`ScriptRules::php`]
    pub php: bool,
    /// [`ScriptRules::front`]
    pub front: Option<Box<[u8]>>,
    /// The method is one that gets files.
    pub gets: bool,
}

/// What a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'p> {
    /// A script that exists.
    Script(Script<'p>),
    /// What the file server finds there.
    File,
    /// A directory was named without its slash.
    AddSlash,
}

const NOT_FOUND: Miss = Miss::Status(404);

/// Finds what `path` stands for, for a method that gets files or not. `is_cached` is asked whether the file server has it.
pub(super) fn find<'p>(
    set: &FileSet,
    rules: ScriptRules<'p>,
    (path, gets): (&'p [u8], bool),
    wait: MayWait,
    is_cached: &mut dyn FnMut() -> bool,
) -> Result<Found<'p>, Miss> {
    if let Some(name) = rules.front {
        return match is_file(set, &[name], wait)? {
            true => Ok(Found::Script(Script { name, index: b"", path_info: b"" })),
            false => Err(NOT_FOUND),
        };
    }
    let prefix = set.files().strip_prefix.as_bytes();
    let Some(below) = below_prefix(path, prefix) else {
        // The prefix without its slash stands for the directory that is mounted there.
        let mounted = prefix.strip_suffix(b"/") == Some(path);
        return match mounted {
            true if gets => Ok(Found::AddSlash),
            true if rules.php => front(set, rules, wait),
            _ => Err(NOT_FOUND),
        };
    };
    let hidden = |path: &[u8]| !set.files().hidden && has_hidden_segment(path);
    if let Some(script) = script::split(below, Some(rules.index), ENDING).map_err(|_| NOT_FOUND)? {
        if !hidden(script.name) && is_file(set, &[script.name, script.index], wait)? {
            return Ok(Found::Script(script));
        }
        if script.index.is_empty() {
            return Err(NOT_FOUND);
        }
    }
    if !rules.php || hidden(below) {
        return Err(NOT_FOUND);
    }
    let found = if gets { file(set, rules, below, wait, is_cached)? } else { None };
    found.map_or_else(|| front(set, rules, wait), Ok)
}

/// What the file server would find at a path that names no script.
fn file<'p>(
    set: &FileSet,
    rules: ScriptRules<'_>,
    below: &[u8],
    wait: MayWait,
    is_cached: &mut dyn FnMut() -> bool,
) -> Result<Option<Found<'p>>, Miss> {
    if is_cached() {
        return Ok(Some(Found::File));
    }
    let slash: &[u8] = if below.ends_with(b"/") { b"" } else { b"/" };
    match look(set, &[below], wait)? {
        Node::Nothing => return Ok(None),
        Node::File(_) => return Ok(Some(Found::File)),
        Node::Directory(_) => {}
    }
    let own = [rules.index].into_iter().filter(|_| !slash.is_empty());
    let indexes = set.files().index.iter().map(String::as_bytes);
    for index in own.chain(indexes.filter(|index| !is_source(index))) {
        if is_file(set, &[below, slash, index], wait)? {
            return Ok(Some(if slash.is_empty() { Found::File } else { Found::AddSlash }));
        }
    }
    Ok(None)
}

/// The front controller.
fn front<'p>(set: &FileSet, rules: ScriptRules<'p>, wait: MayWait) -> Result<Found<'p>, Miss> {
    let script = Script { name: b"/", index: rules.index, path_info: b"" };
    match is_file(set, &[script.name, script.index], wait)? {
        true => Ok(Found::Script(script)),
        false => Err(NOT_FOUND),
    }
}

fn is_file(set: &FileSet, parts: &[&[u8]], wait: MayWait) -> Result<bool, Miss> {
    Ok(matches!(look(set, parts, wait)?, Node::File(_)))
}

/// What is at a path below the root, by the rules of the set.
fn look(set: &FileSet, parts: &[&[u8]], wait: MayWait) -> Result<Node, Miss> {
    let path = parts.concat();
    let leading = path.iter().take_while(|byte| **byte == b'/').count();
    let path = path.get(leading..).unwrap_or_default();
    open_as(set, path, OFlags::PATH | OFlags::CLOEXEC, wait)
}
