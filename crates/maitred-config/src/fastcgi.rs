//! Keys of a pool with `connect = "fastcgi://…"`: where its scripts are, and what they are told.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::external::Upstream;
use super::keys::{Default, Key, Kind};
use super::template::Template;

/// A pool of FastCGI applications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastCgi {
    /// Where they listen; not empty unless others are found ([`Pool::discovery`](super::Pool::discovery)).
    pub servers: Vec<Upstream>,
    /// `root`: the directory of the scripts here, absolute, without a slash at its end. `None`: the application has no files.
    pub root: Option<PathBuf>,
    /// `script_root`: the same as the application sees it; there if `root` is.
    pub script_root: Option<PathBuf>,
    /// `index`: the script of a directory.
    pub index: String,
    /// `php`: whether files below `root` are served, and `index` gets all other paths; there is a `root` then.
    pub php: bool,
    /// `script_filename`: the program that is run for all requests, as the application sees it; there is no `root` then.
    pub script_filename: Option<PathBuf>,
    /// `params`: variables besides those that every request has.
    pub params: Vec<(String, Template)>,
    /// `request_uri = "sent"`: `REQUEST_URI` is what the client has sent, whatever a route makes of it.
    pub uri_as_sent: bool,
}

/// The keys of this file, which no other pool has.
pub(super) const NAMES: [&str; 7] =
    ["root", "script_root", "index", "php", "script_filename", "params", "request_uri"];

/// `root`
pub(super) const ROOT: Key = Key::new(
    "root",
    Kind::Text("a directory"),
    Default::Absent("the application has no files"),
    "With `connect = \"fastcgi://…\"`: the directory of the scripts, as Maitred sees it. A request whose script does not exist \
     there gets 404. Without it every request goes to the application, with `SCRIPT_NAME` = `mount` and the rest of the path as \
     `PATH_INFO`: for applications that are no scripts, such as those of flup.",
);

/// `script_root`
pub(super) const SCRIPT_ROOT: Key = Key::new(
    "script_root",
    Kind::Text("a directory, as an absolute path"),
    Default::Absent("`root`"),
    "The same directory as the application sees it, for `DOCUMENT_ROOT` and `SCRIPT_FILENAME`: in a container it may be elsewhere.",
);

/// `index`
pub(super) const INDEX: Key = Key::new(
    "index",
    Kind::Text("the name of a script"),
    Default::Text("index.php"),
    "The script of a directory; with `php`, the one below `root` is also the front controller.",
);

/// `php`
pub(super) const PHP: Key = Key::new(
    "php",
    Kind::Flag,
    Default::Flag(false),
    "The usual rules of PHP applications: a path that names a script runs it, one that names another file below `root` is \
     answered with that file (GET and HEAD), and every other path is given to `index`. Needs `root`.",
);

/// `script_filename`
pub(super) const SCRIPT_FILENAME: Key = Key::new(
    "script_filename",
    Kind::Text("a program, as an absolute path"),
    Default::Absent("the script that the path names below `root`"),
    "With `connect = \"fastcgi://…\"` and without `root`: the program that a wrapper such as fcgiwrap runs for every request, as \
     the wrapper sees it. `SCRIPT_NAME` is `mount`, and `PATH_INFO` the path below it.",
);

/// `params`
pub(super) const PARAMS: Key = Key::new(
    "params",
    Kind::Map("NAME = value, with placeholders"),
    Default::Absent("none"),
    "With `connect = \"fastcgi://…\"`: further variables of each request. Values can have the placeholders `{client}`, \
     `{scheme}`, `{host}`, `{port}`, `{uri}`, `{user}`, `{request_id}` and `{header.NAME}`; a brace is written twice. \
     Variables that Maitred itself sends, and `HTTP_*`, which are fields of the request, cannot be named.",
);

/// `request_uri`
pub(super) const REQUEST_URI: Key = Key::new(
    "request_uri",
    Kind::Choice(&["passed", "sent"]),
    Default::Text("passed"),
    "With `connect = \"fastcgi://…\"`: what `REQUEST_URI` is. `\"passed\"`: path and query as the route passes them on, after \
     `rewrite`, in their canonical form. `\"sent\"`: those that the client has sent, as nginx's `$request_uri`; a path with dot \
     segments is canonical all the same. The other variables follow the rewritten path in either case.",
);

/// `front_controller` of a route.
pub(super) const FRONT_CONTROLLER: Key = Key::new(
    "front_controller",
    Kind::Text("a script below `root` of the pool, such as `\"index.php\"`"),
    Default::Absent("the script that the path names"),
    "With a `pool` of FastCGI that has a `root`: this script answers every request of the route, whatever its path is like: \
     segments that begin with a dot, `.php` in any case, and repeated slashes are data. `REQUEST_URI` is as the client has sent \
     it, and `PATH_INFO` is empty. No file is served by this route, unless it has a `root` whose `try` ends in the pool: then \
     the script answers for what is no file.",
);
