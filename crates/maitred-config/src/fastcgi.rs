//! Keys of a pool with `connect = "fastcgi://…"`: where its scripts are.

use super::keys::{Default, Key, Kind};

/// The keys of this file, which no other pool has.
pub(super) const NAMES: [&str; 4] = ["root", "script_root", "index", "php"];

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
