//! What `--help` and the manual page say besides commands and flags.

use std::fmt::Write as _;

/// A titled list of terms and their meanings.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) entries: &'static [(&'static str, &'static str)],
}

pub(super) const SERVE_EXAMPLES: &Part = &Part {
    title: "Examples",
    entries: &[
        ("maitred serve public", "the directory public, on port 8080 of all addresses"),
        ("maitred serve . --listen 127.0.0.1:0", "this directory, for this machine only, on any free port"),
        ("maitred serve public --tls", "https://localhost:8443, with a self-signed certificate"),
        ("maitred serve dist --log json > access.json", "with an access log for programs"),
    ],
};

/// What the help of the whole program ends with.
pub(super) const ALL: &[&Part] = &[
    &Part {
        title: "Examples",
        entries: &[
            ("maitred serve public", "a static site on port 8080, no configuration"),
            ("maitred check -c site/maitred.toml", "report all errors of a configuration"),
            ("maitred run -c site/maitred.toml", "run it in the foreground"),
            ("maitred status -c site/maitred.toml", "show what that server is doing"),
            ("maitred top", "the same, live, in the terminal"),
            (
                "maitred pool web restart",
                "replace the application processes of [pool.web], without a lost request",
            ),
            ("maitred upstream app drain 192.0.2.7:8080", "give one server of [pool.app] no new requests"),
            ("maitred cache purge https://example.com/news", "no client gets what was kept of that page"),
            ("maitred reload && maitred status --json", "the server of ./maitred.toml"),
        ],
    },
    &Part {
        title: "Exit status",
        entries: &[
            ("0", "success"),
            ("1", "failure: an address in use, no server at the address, a request that the server refused"),
            ("2", "the command line or the configuration is wrong; nothing was bound or started"),
        ],
    },
    &Part {
        title: "Files",
        entries: &[
            (
                "maitred.toml",
                "the configuration, when -c is not given; docs/configuration.md describes every key",
            ),
            ("$XDG_RUNTIME_DIR/maitred-PORT.sock", "admin socket of `maitred serve`"),
        ],
    },
    &Part {
        title: "Signals",
        entries: &[
            ("SIGTERM", "stop, after finishing all requests, within `grace`"),
            ("SIGINT", "stop at once (Ctrl-C)"),
            (
                "SIGHUP",
                "read the configuration again, and reopen the log files; `serve` and `app` stop, as their terminal is closed",
            ),
            ("SIGUSR1", "reopen the log files, and nothing else"),
            ("SIGUSR2", "replace the executable by the file that is now at its path"),
        ],
    },
];

/// For `--help`.
pub(super) fn help(parts: &[&Part]) -> String {
    let mut text = String::new();
    for part in parts {
        let width = part.entries.iter().map(|(term, _)| term.len()).max().unwrap_or(0);
        let _ = writeln!(text, "{}{}:", if text.is_empty() { "" } else { "\n" }, part.title);
        for (term, meaning) in part.entries {
            let _ = writeln!(text, "  {term:width$}  {meaning}");
        }
    }
    text
}

/// For the manual page, in the macros of man(7).
pub(super) fn roff(parts: &[&Part]) -> String {
    let mut text = String::new();
    for part in parts {
        let _ = writeln!(text, ".SH \"{}\"", part.title.to_uppercase());
        for (term, meaning) in part.entries {
            let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escape(term), escape(meaning));
        }
    }
    text
}

/// Plain text in roff: no backslash, hyphen or leading dot may mean anything.
pub(super) fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    match escaped.starts_with(['.', '\'']) {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}
