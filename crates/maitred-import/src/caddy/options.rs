//! The options for all sites.

use super::matchers;
use super::tree::Directive;
use super::values;
use crate::model::Value;
use crate::report::Kind;
use crate::shared::Shared;
use crate::variables;
use crate::write;

/// Options for all sites.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Keys of `[server]`.
    pub(crate) server: Vec<(String, Value)>,
    /// Keys of `[acme]`.
    pub(crate) acme: Vec<(String, Value)>,
    /// Keys of `[limits]`.
    pub(crate) limits: Vec<(String, Value)>,
    /// No certificates by themselves.
    pub(crate) no_certificates: bool,
    /// No redirects to TLS.
    pub(crate) no_redirects: bool,
    /// The ports of cleartext and of TLS.
    pub(crate) ports: (Option<u16>, Option<u16>),
    /// Where sites are bound that do not say it.
    pub(crate) bind: Vec<String>,
    /// Certificates are of Caddy's own authority.
    pub(crate) local: bool,
    /// Connections begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
    /// Who may send one; any peer may, if it is empty.
    pub(crate) proxy_from: Vec<String>,
    /// No HTTP/3.
    pub(crate) no_http3: bool,
    /// Some proxies are trusted.
    pub(crate) proxies: bool,
    /// Directives whose place is another one than Caddy's.
    order: Vec<String>,
    /// `&(name)`: routes with names.
    pub(crate) routes: Vec<(String, Directive)>,
}

/// What is said of a mail address that only the server's environment has.
pub(crate) const MAIL: &str = "authorities write to `contact` of [acme], if it is there: the variable is not set where the \
                               import runs";
/// What is said of the names of a zone.
pub(crate) const DNS: &str = "names are validated by ports 80 and 443, unless `[[acme.dns]]` names a server that takes updates, or \
                              a program (docs/acme.md)";
/// Lines of `tls` about records of names.
pub(crate) const RECORDS: &[&str] = &[
    "dns",
    "dns_challenge_override_domain",
    "dns_ttl",
    "propagation_delay",
    "propagation_timeout",
    "resolvers",
];
/// What is said of certificates of Caddy's own authority.
pub(crate) const OWN: &str = "no authority is made for such names: `certificates` takes files that one of yours has signed, as \
                              Caddy's own can, or [acme] has its `directory`; until then there is no TLS for them";
/// What is said of PHP that runs in Caddy.
pub(crate) const PHP: &str =
    "FrankenPHP has PHP inside: run PHP-FPM, and name it by `php_fastcgi` (docs/php.md)";
/// The authority that there is unless another one is named.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Caddy's order of directives (`httpcaddyfile.defaultDirectiveOrder`). Directives of modules come before all others.
pub(crate) const ORDER: &[&str] = &[
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "log_level",
    "header",
    "copy_response_headers",
    "request_body",
    "timeouts",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

impl Options {
    /// The place of a directive in the order; those of modules come first.
    pub(crate) fn rank(&self, name: &str) -> usize {
        // The longest path of all of them comes first.
        let name = match name {
            "handle_path" => "handle",
            "basicauth" => "basic_auth",
            "skip_log" => "log_skip",
            name => name,
        };
        self.order.iter().position(|known| known == name).map_or(0, |place| place + 1)
    }

    /// Reads the blocks of options.
    pub(crate) fn read(cx: &Shared, globals: &[Directive]) -> Options {
        let mut options =
            Options { order: ORDER.iter().map(|name| (*name).to_owned()).collect(), ..Options::default() };
        for line in globals.iter().flat_map(|global| global.inside()) {
            if !options.certificates(cx, line) && !options.addresses(cx, line) {
                options.others(cx, line);
            }
        }
        options
    }

    /// Options about certificates.
    fn certificates(&mut self, cx: &Shared, line: &Directive) -> bool {
        let word = values::fixed(line.word(1)).filter(|word| !word.is_empty());
        let mut push = |key: &str, word: Option<String>| match word {
            Some(word) if key == "contact" => self.acme.push((key.into(), Value::texts(&[word]))),
            Some(word) => self.acme.push((key.into(), word.into())),
            None => cx.not_possible(line, "it is fixed here, without placeholders"),
        };
        match line.name() {
            "email" if word.as_deref().is_some_and(variables::is_in) => {
                cx.say(line, Kind::Choice, MAIL);
                return true;
            }
            "email" => push("contact", word),
            "acme_ca" => push(
                "directory",
                word.map(|url| variables::with_otherwise(&url, |_, _| LETS_ENCRYPT.to_owned())),
            ),
            "acme_ca_root" => push("ca_file", word),
            "local_certs" => {
                self.local = true;
                cx.say(line, Kind::Worse, OWN);
                return true;
            }
            "skip_install_trust" => {
                cx.not_needed(line, "no authority of one's own is made, so that none is installed");
                return true;
            }
            "renew_interval"
            | "storage_clean_interval"
            | "ocsp_interval"
            | "storage_check"
            | "key_type"
            | "preferred_chains"
            | "cert_lifetime"
            | "renewal_window_ratio"
            | "ocsp_stapling" => {
                cx.say(line, Kind::Choice, "[acme] has settings of its own");
                return true;
            }
            "auto_https" => match line.word(1) {
                "off" | "disable_certs" => {
                    self.no_certificates = true;
                    self.no_redirects |= line.word(1) == "off";
                }
                "disable_redirects" => self.no_redirects = true,
                "ignore_loaded_certs" | "prefer_wildcard" => {
                    cx.say(line, Kind::Choice, "a site has certificates of its own, or those of [acme]");
                    return true;
                }
                _ => {
                    cx.not_possible(line, "this is no value of it");
                    return true;
                }
            },
            _ => return false,
        }
        cx.translated(line);
        true
    }

    /// Options about addresses.
    fn addresses(&mut self, cx: &Shared, line: &Directive) -> bool {
        let port = line.word(1).parse::<u16>().ok().filter(|port| *port > 0);
        match line.name() {
            "http_port" | "https_port" if port.is_none() && line.word(1).starts_with("{$") => {
                let why = "the variable is not set where the import runs, and all addresses depend on it: run it with the \
                           environment of Caddy";
                cx.not_possible(line, why);
            }
            "http_port" | "https_port" if port.is_none() => cx.not_possible(line, "a port is a number"),
            "http_port" => {
                cx.translated(line);
                self.ports.0 = port;
            }
            "https_port" => {
                cx.translated(line);
                self.ports.1 = port;
            }
            "default_bind" => {
                cx.translated(line);
                self.bind = line.args().to_vec();
            }
            "servers" => {
                // An address behind the name is for some servers only.
                let own = line.words.len() > 1;
                cx.translated(line);
                for inside in line.inside() {
                    match own {
                        true => cx.not_possible(
                            inside,
                            "what is said of [server] and [limits] holds at all addresses",
                        ),
                        false => self.server(cx, inside),
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn others(&mut self, cx: &Shared, line: &Directive) {
        match (line.name(), line.word(1)) {
            ("order", _) => match self.reorder(line) {
                Some(()) => cx.translated(line),
                None => cx.not_possible(line, "a directive stands first, last, before or after another one"),
            },
            ("admin", "off") => cx.not_needed(line, "without `admin` in [server] there is no such address"),
            ("admin", _) => {
                cx.say(line, Kind::Choice, "`maitred reload` and `admin` of [server] are what there is")
            }
            ("grace_period" | "shutdown_delay", _) => {
                cx.say(line, Kind::Choice, "[server] says how long requests have when it stops");
            }
            ("debug" | "log" | "metrics" | "tracing", _) => {
                cx.say(line, Kind::Choice, "[log] and `admin` of [server] have what observers need");
                line.inside()
                    .iter()
                    .for_each(|line| cx.say(line, Kind::Choice, "[log] has settings of its own"));
            }
            ("storage" | "persist_config", _) => {
                cx.say(line, Kind::Choice, "certificates are kept in the directory for state");
            }
            ("default_sni" | "fallback_sni", _) => {
                cx.say(line, Kind::Choice, "without a name, the certificate is that of the first site");
            }
            ("acme_dns", _) => cx.say(line, Kind::Worse, DNS),
            ("frankenphp", _) => {
                cx.not_possible(line, PHP);
                line.inside().iter().for_each(|inside| cx.not_needed(inside, "it is about the PHP inside"));
            }
            ("supervisor", _) => {
                cx.not_possible(line, "programs are started by a supervisor of their own, such as systemd");
                line.inside()
                    .iter()
                    .for_each(|inside| cx.not_needed(inside, "what it is in has no counterpart"));
            }
            _ => cx.not_possible(line, "there is no key for this"),
        }
    }

    /// `order NAME first`, `order NAME before OTHER`
    fn reorder(&mut self, line: &Directive) -> Option<()> {
        let [name, place, rest @ ..] = line.args() else { return None };
        let mut order = self.order.clone();
        order.retain(|known| known != name);
        let of = |other: &String| order.iter().position(|known| known == other);
        let at = match (place.as_str(), rest) {
            ("first", []) => 0,
            ("last", []) => order.len(),
            ("before", [other]) => of(other)?,
            ("after", [other]) => of(other)? + 1,
            _ => return None,
        };
        order.insert(at, name.clone());
        self.order = order;
        Some(())
    }

    /// A line of `servers`.
    fn server(&mut self, cx: &Shared, line: &Directive) {
        match (line.name(), line.word(1)) {
            ("trusted_proxies", "static") => {
                cx.translated(line);
                self.proxies = true;
                let networks = matchers::networks(line.args().get(1..).unwrap_or_default());
                self.server.push(("trusted_proxies".into(), Value::texts(&networks)));
            }
            ("trusted_proxies_strict", _) => {
                cx.not_needed(line, "of what proxies say, the last address that is none of theirs counts");
            }
            ("client_ip_headers", name) if line.args().len() == 1 => {
                cx.translated(line);
                if !name.eq_ignore_ascii_case("x-forwarded-for") {
                    self.server.push(("client_address_from".into(), name.into()));
                }
            }
            ("protocols", _) => self.protocols(cx, line),
            ("listener_wrappers", _) => self.wrappers(cx, line),
            ("timeouts", _) => {
                cx.translated(line);
                line.inside().iter().for_each(|inside| self.time(cx, inside));
            }
            ("max_header_size", size) => match values::size(size) {
                Some(bytes) => {
                    cx.translated(line);
                    self.limits
                        .push(("head_bytes_max".into(), write::size(bytes.clamp(1 << 10, 256 << 10)).into()));
                }
                None => cx.not_possible(line, "this is no size"),
            },
            (
                "name" | "metrics" | "log_credentials" | "trace" | "enable_full_duplex"
                | "keepalive_interval" | "keepalive_idle" | "keepalive_count",
                _,
            ) => {
                cx.say(line, Kind::Choice, "[log], [limits] and [[listen]] have settings of their own");
            }
            ("strict_sni_host", _) => {
                cx.not_needed(
                    line,
                    "certificates of clients belong to a listener, whatever name a request has",
                );
            }
            ("0rtt", "off") => cx.not_needed(line, "without `early_data` there is none"),
            _ => cx.not_possible(line, "there is no key for this"),
        }
    }

    fn protocols(&mut self, cx: &Shared, line: &Directive) {
        self.no_http3 = !line.args().iter().any(|protocol| protocol == "h3");
        match line.args().iter().any(|protocol| protocol == "h1") {
            _ if line.args().iter().any(|protocol| protocol == "h2c") => {
                cx.say(line, Kind::Choice, "HTTP/2 in cleartext is for clients that know it beforehand");
            }
            true => cx.translated(line),
            false => cx.say(line, Kind::Choice, "HTTP/1.1 is always there"),
        }
    }

    fn wrappers(&mut self, cx: &Shared, line: &Directive) {
        for inside in line.inside() {
            match inside.name() {
                "proxy_protocol" => {
                    self.proxy_protocol = true;
                    cx.translated(inside);
                    inside.inside().iter().for_each(|allow| self.allow(cx, allow));
                }
                "tls" => cx.translated(inside),
                "http_redirect" => {
                    cx.say(inside, Kind::Choice, "HTTP at a port with TLS gets 400 with a sentence")
                }
                _ => cx.not_possible(inside, "there is no key for this"),
            }
        }
        cx.translated(line);
    }

    /// `allow` of `proxy_protocol`.
    fn allow(&mut self, cx: &Shared, line: &Directive) {
        match line.name() {
            "allow" => {
                cx.translated(line);
                self.proxy_from = matchers::networks(line.args());
            }
            "timeout" => cx.say(line, Kind::Choice, "`head_timeout` is for that header as well"),
            _ => cx.say(line, Kind::Choice, "a connection without the header is closed"),
        }
    }

    /// A line of `timeouts`.
    fn time(&mut self, cx: &Shared, line: &Directive) {
        let key = match line.name() {
            "read_header" => "head_timeout",
            "idle" => "keep_alive_timeout",
            // Those of a whole body and a whole response in Caddy; here of a silence in them.
            "read_body" => "body_timeout",
            "write" => "write_timeout",
            _ => return cx.not_possible(line, "there is no such time"),
        };
        let Some(millis) = values::millis(line.word(1)).filter(|millis| *millis > 0) else {
            return cx.not_possible(line, "this is no time");
        };
        match line.name() {
            "read_body" | "write" => {
                cx.say(line, Kind::Choice, "it is for how long a client is silent, and not for the whole")
            }
            _ => cx.translated(line),
        }
        self.limits.push((key.into(), write::time(millis.min(86_400_000)).into()));
    }
}
