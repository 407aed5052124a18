//! `[log]`: access log and error log.

use super::keys::{Default, Key, Kind, Table};

/// `[log]`
pub(super) const LOG: Table = Table {
    title: "[log]",
    doc: "Access log and error log. Files are reopened at a reload, for log rotation.",
    example: "[log]\naccess = \"json\"\naccess_file = \"/var/log/maitred/access.log\"\nlevel = \"info\"\n",
    keys: &[
        Key::new(
            "access",
            Kind::Choice(&["combined", "json", "human", "off"]),
            Default::Text("combined"),
            "Format of the access log: Combined Log Format, one JSON object per line, short lines for a terminal, or none.",
        ),
        Key::new(
            "access_file",
            Kind::Text("a path"),
            Default::Absent("standard output"),
            "Where the access log goes. A relative path starts at the configuration file.",
        ),
        Key::new(
            "error_file",
            Kind::Text("a path"),
            Default::Absent("standard error"),
            "Where the error log goes.",
        ),
        Key::new(
            "level",
            Kind::Text(
                "`\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"`, `\"trace\"`, or a filter such as `\"info,maitred::pool=debug\"`",
            ),
            Default::Text("info"),
            "The least severe level in the error log.",
        ),
    ],
};
