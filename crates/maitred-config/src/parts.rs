//! Keys at the top of the file that are no tables: other files, and lists.

use super::keys::{Default, Key, Kind};

/// `import`
pub(super) const IMPORT: Key = Key {
    reason: "At most 1024 files, and imports in imports 8 levels deep: a mistake ends with an error, and not with the memory.",
    ..Key::new(
        "import",
        Kind::TextOrTexts("a path, or a pattern such as `\"conf.d/*.toml\"`"),
        Default::Absent("this file alone"),
        "Other files that belong to the configuration, see [several files](configuration-files.md). A relative path starts at \
         this file; `*`, `?` and `[…]` stand for parts of a name; what a pattern matches is taken in alphabetical order.",
    )
};

/// `[networks]`
pub(super) const NETWORKS: Key = Key {
    reason: "At most 100000 networks in all lists, so that lists in lists cannot fill the memory.",
    ..Key::new(
        "networks",
        Kind::Lists("`name = [\"10.0.0.0/8\", \"192.0.2.7\", \"@other\"]`"),
        Default::Absent("`@all`, `@loopback` and `@private` alone"),
        "Lists of addresses and networks. `\"@name\"` stands for a list wherever networks are named, and in other lists. \
         `@loopback` (127.0.0.0/8, ::1), `@private` (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7) and `@all` are \
         always there.",
    )
};
