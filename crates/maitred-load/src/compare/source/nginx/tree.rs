//! What of a configuration matters for requests.

use serde_json::Value;

use crate::compare::request::Port;

/// Servers, and locations of all servers. nginx takes more; a comparison of so many takes days.
const SERVERS_MAX: usize = 1000;
const LOCATIONS_MAX: usize = 10_000;

/// A `server`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// The ports over TCP.
    pub(super) ports: Vec<Port>,
    /// The names as they stand there.
    pub(super) names: Vec<String>,
    /// What holds for all of it.
    pub(super) scope: Scope,
    /// The locations, those within others behind them.
    pub(super) locations: Vec<Location>,
    /// The server looks at certificates of clients.
    pub(super) verifies_clients: bool,
}

/// What a block says of files and paths, and what it has from the block around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// `root`, if it has no variables.
    pub(super) root: Option<String>,
    /// `index`.
    pub(super) index: Vec<String>,
    /// Paths that it names: error pages, fixed items of `try_files`.
    pub(super) paths: Vec<String>,
    /// Expressions of `rewrite`.
    pub(super) rewrites: Vec<String>,
}

/// A `location`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) pattern: Pattern,
    pub(super) scope: Scope,
    /// `alias`, if it has no variables.
    pub(super) alias: Option<String>,
}

/// What paths a location is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(String),
    Prefix(String),
    Regex { expression: String, any_case: bool },
}

impl Pattern {
    /// As it stands in the configuration.
    pub(super) fn shown(&self) -> String {
        match self {
            Pattern::Exact(path) => format!("= {path}"),
            Pattern::Prefix(path) => path.clone(),
            Pattern::Regex { expression, any_case: false } => format!("~ {expression}"),
            Pattern::Regex { expression, any_case: true } => format!("~* {expression}"),
        }
    }
}

/// All servers of HTTP.
pub(super) fn servers(directives: &Value) -> Vec<Server> {
    let mut found = Vec::new();
    let mut locations = 0;
    let outer = Scope::default().within(directives);
    for directive in each(directives) {
        match name(directive) {
            "http" => {
                let inside = block(directive);
                let scope = outer.within(inside);
                for directive in each(inside).filter(|directive| name(directive) == "server") {
                    found.push(server(block(directive), &scope, &mut locations));
                }
            }
            // A file of one site.
            "server" => found.push(server(block(directive), &outer, &mut locations)),
            _ => {}
        }
    }
    found.truncate(SERVERS_MAX);
    found
}

fn each(directives: &Value) -> impl Iterator<Item = &Value> {
    directives.as_array().into_iter().flatten()
}

fn name(directive: &Value) -> &str {
    directive.get(0).and_then(Value::as_str).unwrap_or_default()
}

fn args(directive: &Value) -> Vec<&str> {
    directive.get(1).into_iter().flat_map(each).filter_map(Value::as_str).collect()
}

fn block(directive: &Value) -> &Value {
    directive.get(3).unwrap_or(&Value::Null)
}

impl Scope {
    /// The scope of a block within this one.
    fn within(&self, directives: &Value) -> Scope {
        let mut scope = Scope { paths: Vec::new(), rewrites: Vec::new(), ..self.clone() };
        let is_fixed = |text: &&str| !text.contains('$');
        for directive in each(directives) {
            let args = args(directive);
            match name(directive) {
                "root" => {
                    scope.root = args.first().filter(|root| is_fixed(root)).map(|root| (*root).to_owned())
                }
                "index" => scope.index = args.into_iter().filter(is_fixed).map(str::to_owned).collect(),
                "error_page" => scope
                    .paths
                    .extend(args.last().filter(|path| is_path(path)).map(|path| (*path).to_owned())),
                "try_files" => {
                    let fixed = args.into_iter().filter(|path| is_path(path));
                    scope.paths.extend(fixed.map(str::to_owned));
                }
                "rewrite" => scope.rewrites.extend(args.first().map(|expression| (*expression).to_owned())),
                _ => {}
            }
        }
        scope
    }
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains('$')
}

fn server(directives: &Value, outer: &Scope, locations: &mut usize) -> Server {
    let mut server = Server { scope: outer.within(directives), ..Server::default() };
    let mut listens = false;
    for directive in each(directives) {
        let args = args(directive);
        match name(directive) {
            "listen" => {
                listens = true;
                server.ports.extend(port(&args));
            }
            "server_name" => server.names.extend(args.into_iter().map(str::to_owned)),
            "ssl_verify_client" => {
                server.verifies_clients = args.first().is_some_and(|value| *value != "off")
            }
            // nginx before 1.25: TLS at all addresses.
            "ssl" if args.first() == Some(&"on") => {
                server.ports.iter_mut().for_each(|port| port.is_tls = true);
            }
            _ => {}
        }
    }
    if !listens {
        server.ports.push(Port { number: 80, is_tls: false });
    }
    server.ports.dedup();
    collect(directives, &server.scope.clone(), &mut server.locations, locations);
    server
}

fn collect(directives: &Value, outer: &Scope, found: &mut Vec<Location>, count: &mut usize) {
    for directive in each(directives).filter(|directive| name(directive) == "location") {
        *count += 1;
        if *count > LOCATIONS_MAX {
            return;
        }
        let inside = block(directive);
        let scope = outer.within(inside);
        let alias = each(inside).find(|directive| name(directive) == "alias");
        let alias = alias.and_then(|alias| args(alias).first().map(|path| (*path).to_owned()));
        let text = |text: &&str| (*text).to_owned();
        let pattern = match &*args(directive) {
            ["=", path] => Some(Pattern::Exact(text(path))),
            ["^~", path] => Some(Pattern::Prefix(text(path))),
            ["~", expression] => Some(Pattern::Regex { expression: text(expression), any_case: false }),
            ["~*", expression] => Some(Pattern::Regex { expression: text(expression), any_case: true }),
            // Without a space, as nginx reads it too.
            [one] if one.starts_with("^~") => Some(Pattern::Prefix(text(&one.get(2..).unwrap_or_default()))),
            [one] if one.starts_with('=') => Some(Pattern::Exact(text(&one.get(1..).unwrap_or_default()))),
            [one] if one.starts_with("~*") => {
                Some(Pattern::Regex { expression: text(&one.get(2..).unwrap_or_default()), any_case: true })
            }
            [one] if one.starts_with('~') => {
                Some(Pattern::Regex { expression: text(&one.get(1..).unwrap_or_default()), any_case: false })
            }
            // Only internal redirects reach a named one.
            [one] if one.starts_with('/') => Some(Pattern::Prefix(text(one))),
            _ => None,
        };
        if let Some(pattern) = pattern {
            let alias = alias.filter(|path| !path.contains('$'));
            found.push(Location { pattern, scope: scope.clone(), alias });
        }
        collect(inside, &scope, found, count);
    }
}

/// The port of a `listen`, if it is one of TCP.
fn port(args: &[&str]) -> Option<Port> {
    let (address, options) = args.split_first()?;
    if address.starts_with("unix:") || options.contains(&"quic") {
        return None;
    }
    let number = match address.parse::<u16>() {
        Ok(number) => number,
        Err(_) => match address.rsplit_once(':').filter(|_| !address.ends_with(']')) {
            Some((_, number)) => number.parse().ok()?,
            None => 80,
        },
    };
    Some(Port { number, is_tls: options.contains(&"ssl") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Server> {
        servers(&maitred_import::nginx_directives(text).unwrap())
    }

    #[test]
    fn servers_have_ports_names_and_scopes() {
        let found = read(
            "http { root /srv; index a.html;
               server { listen 80; listen [::]:80; listen 443 ssl; listen 443 quic; listen unix:/x; listen 127.0.0.1:81;
                 server_name a.example b.example; ssl_verify_client optional; error_page 404 /404.html;
                 try_files $uri /fallback; rewrite ^/old /new; } }
             server { root /other; }
             stream { server { listen 1; } }",
        );
        assert_eq!(found.len(), 2);
        let first = &found[0];
        let port = |number, is_tls| Port { number, is_tls };
        assert_eq!(first.ports, [port(80, false), port(443, true), port(81, false)]);
        assert_eq!(first.names, ["a.example", "b.example"]);
        assert_eq!(
            (first.scope.root.as_deref(), &*first.scope.index),
            (Some("/srv"), &["a.html".to_owned()][..])
        );
        assert_eq!(first.scope.paths, ["/404.html", "/fallback"]);
        assert_eq!(first.scope.rewrites, ["^/old"]);
        assert!(first.verifies_clients);
        assert_eq!(
            (&*found[1].ports, found[1].scope.root.as_deref()),
            (&[port(80, false)][..], Some("/other"))
        );
    }

    #[test]
    fn locations_have_their_patterns_and_what_is_around_them() {
        let found = read(
            "server { root /srv; location = /a { } location /b/ { alias /x/; location ~ \\.php$ { root /y; } }
             location ^~ /c { } location ~* \\.PNG$ { } location @named { } location =/d { } location ~/e { } }",
        );
        let shown: Vec<String> = found[0].locations.iter().map(|location| location.pattern.shown()).collect();
        assert_eq!(shown, ["= /a", "/b/", "~ \\.php$", "/c", "~* \\.PNG$", "= /d", "~ /e"]);
        assert_eq!(found[0].locations[1].alias.as_deref(), Some("/x/"));
        assert_eq!(found[0].locations[2].scope.root.as_deref(), Some("/y"));
        assert_eq!(found[0].locations[3].scope.root.as_deref(), Some("/srv"));
    }

    #[test]
    fn odd_trees_do_no_harm() {
        for text in [
            "server { listen; listen 99999; listen a:b; location { } location a b c { } }",
            "server { server { } }",
        ] {
            assert_eq!(read(text).len(), 1);
        }
        for value in [Value::Null, serde_json::json!([1, [], ["server"], ["server", 1, 2, 3]])] {
            assert!(servers(&value).iter().all(|server| server.locations.is_empty()));
        }
    }
}
