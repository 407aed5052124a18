//! A generated site: keys and routes whose parts can be left out one by one.

use std::fmt::Write as _;

use crate::pools::Kind;
use crate::support::libraries::examples;

/// A key and its value as TOML has it. `@a` and `@b` in it are pools, whose kind is said when the text is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) keys: Vec<Key>,
    pub(crate) routes: Vec<Vec<Key>>,
}

/// The same site said in another way, under a name of its own: answers have to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guise {
    /// The letter in its name.
    pub(crate) letter: char,
    pub(crate) kind: Kind,
    /// Without what keeps or compresses responses.
    pub(crate) is_plain: bool,
    /// Keys in the opposite order, behind routes that are for other paths: where routes are many, they are found in another way.
    pub(crate) is_reversed: bool,
}

/// What tells a path or a query that an application gets from the one that was sent.
pub(crate) const CHANGING: [&str; 6] =
    ["rewrite", "strip_prefix", "query", "reroute", "path_regex", "encoded_slashes"];

/// Routes for paths that are never asked for.
const DEAD_ROUTES: usize = 5;

/// What a plain site has not.
const NOT_PLAIN: [&str; 2] = ["cache", "compress"];

impl Site {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        get(&self.keys, name)
    }

    /// Whether it, or one of its routes, has this key.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some() || self.routes.iter().any(|route| get(route, name).is_some())
    }

    /// Whether a value of it, or of one of its routes, has this text.
    pub(crate) fn says(&self, text: &str) -> bool {
        self.keys.iter().chain(self.routes.iter().flatten()).any(|key| key.value.contains(text))
    }

    /// Whether it answers at the listener of this name.
    pub(crate) fn answers_at(&self, listener: &str) -> bool {
        self.get("listen").is_none_or(|names| names.contains(&format!("\"{listener}\"")))
    }

    /// Whether routes ask where a request has come in.
    pub(crate) fn tells_arrivals_apart(&self) -> bool {
        let of_arrival = ["listener = ", "tls = ", "scheme = ", "client_certificate = "];
        let conditions = self.routes.iter().filter_map(|route| get(route, "match"));
        conditions.into_iter().any(|condition| of_arrival.iter().any(|name| condition.contains(name)))
    }

    /// The site's tables, in one guise.
    pub(crate) fn text(&self, host: &str, guise: Guise) -> String {
        let mut text = format!("[[site]]\nhosts = [\"{host}\"]\n");
        write_keys(&mut text, &self.keys, guise);
        for number in 0..if guise.is_reversed { DEAD_ROUTES } else { 0 } {
            let _ =
                write!(text, "[[site.route]]\npath = \"/dead/{number}/*\"\nrespond = {{ status = 410 }}\n");
        }
        for route in &self.routes {
            text.push_str("[[site.route]]\n");
            write_keys(&mut text, route, guise);
        }
        text
    }

    /// Sites that are smaller: first by much, then by one route or one key.
    pub(crate) fn smaller(&self) -> Vec<Site> {
        let mut found = Vec::new();
        if self.keys.len() > 1 {
            found.push(Site { keys: Vec::new(), routes: self.routes.clone() });
        }
        if self.routes.len() > 2 {
            found.extend(
                self.routes.iter().map(|route| Site { keys: self.keys.clone(), routes: vec![route.clone()] }),
            );
        }
        for at in 0..self.routes.len() {
            let mut site = self.clone();
            site.routes.remove(at);
            found.push(site);
        }
        for at in 0..self.keys.len() {
            let mut site = self.clone();
            site.keys.remove(at);
            found.push(site);
        }
        for route in 0..self.routes.len() {
            for at in 0..self.routes[route].len() {
                if !NEEDED.contains(&self.routes[route][at].name) {
                    let mut site = self.clone();
                    site.routes[route].remove(at);
                    found.push(site);
                }
            }
        }
        found
    }
}

/// Without these a route is another one, or none.
const NEEDED: [&str; 7] = ["path", "pool", "root", "respond", "redirect", "reroute", "strip_prefix"];

pub(crate) fn get<'k>(keys: &'k [Key], name: &str) -> Option<&'k str> {
    keys.iter().find(|key| key.name == name).map(|key| key.value.as_str())
}

fn write_keys(text: &mut String, keys: &[Key], guise: Guise) {
    let mut lines: Vec<_> = keys
        .iter()
        .filter(|key| !guise.is_plain || !NOT_PLAIN.contains(&key.name))
        .map(|key| {
            // One script answers what a route leads to, and not what other ways lead there.
            let is_controller = guise.kind == Kind::Controller && key.name == "pool";
            let kind =
                if is_controller || guise.kind != Kind::Controller { guise.kind } else { Kind::FastCgi };
            let pool = |role: &str| format!("{role}-{}", kind.name());
            let value = key.value.replace("@a", &pool("a")).replace("@b", &pool("b"));
            let value = value.replace("@modules", &examples().display().to_string());
            let controller = if is_controller { "front_controller = \"index.php\"\n" } else { "" };
            format!("{} = {value}\n{controller}", key.name)
        })
        .collect();
    if guise.is_reversed {
        lines.reverse();
    }
    let _ = write!(text, "{}", lines.concat());
}
