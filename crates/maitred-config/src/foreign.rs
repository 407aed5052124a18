//! Words of other servers' configurations, and what they are here, for messages about unknown keys.

/// A directive of nginx, Caddy, HAProxy or Apache, and its counterpart, as a hint says it.
pub(super) type Word = (&'static str, &'static str);

const HIDE: &str =
    "`response_headers = { remove = [\"NAME\"] }` in [[site]] or [[site.route]]: docs/headers.md";

/// In alphabetical order. `docs/from-nginx.md` explains them; a test compares the two.
pub(super) const WORDS: &[Word] = &[
    ("access_log", "`access` and `access_file` in [log]"),
    (
        "add_header",
        "`response_headers = { set = { NAME = \"value\" } }` in [[site]] or [[site.route]]: docs/headers.md",
    ),
    ("alias", "`root` with `strip_prefix` in [[site.route]]"),
    ("allow", "`allow` in [[site]] or [[site.route]]"),
    ("auth_basic", "`basic_auth = { users_file = \"…\" }` in [[site]] or [[site.route]]"),
    ("auth_jwt", "`jwt` in [[site]] or [[site.route]]"),
    ("auth_request", "`forward_auth` in [[site]] or [[site.route]]"),
    ("autoindex", "`listing = true` in [[site]] or [[site.route]]"),
    ("backend", "[pool.NAME] with `connect`, and `pool = \"NAME\"` in [[site.route]]"),
    ("bind", "`address` in [[listen]]"),
    ("client_body_timeout", "`body_timeout` in [limits]"),
    ("client_header_timeout", "`head_timeout` in [limits]"),
    ("client_max_body_size", "`body_bytes_max` in [limits], such as \"100MiB\""),
    ("default_type", "`types = { default = \"text/plain\" }` in [[site]] or [[site.route]]"),
    ("deny", "`deny` in [[site]] or [[site.route]]; `respond = { status = 403 }` refuses a path"),
    ("encode", "`compress = true` in [[site]] or [[site.route]]: docs/compression.md"),
    ("error_log", "`error_file` and `level` in [log]"),
    ("error_page", "`error_pages = { 404 = \"/404.html\" }` in [[site]]"),
    ("expires", "`expires = { default = \"1h\" }` in [[site]] or [[site.route]]: docs/headers.md"),
    ("fastcgi_hide_header", HIDE),
    ("fastcgi_index", "`index` in [pool.NAME]; \"index.php\" is the default"),
    (
        "fastcgi_param",
        "nothing to set: docs/php.md has the variables; php-fpm's pool can have others (`env[NAME]`)",
    ),
    (
        "fastcgi_pass",
        "`connect = \"fastcgi+unix:/run/php/php-fpm.sock\"` in [pool.NAME], with `root` and `php = true`: docs/php.md",
    ),
    ("fastcgi_read_timeout", "`request_timeout` in [pool.NAME]"),
    ("file_server", "`root` in [[site]] or [[site.route]]"),
    ("frontend", "[[listen]] and [[site]]"),
    ("gzip", "`compress = true` in [[site]] or [[site.route]]: docs/compression.md"),
    ("gzip_static", "`precompressed = [\"gzip\"]` in [[site]]"),
    ("include", "`import = [\"conf.d/*.toml\"]` at the top of the file: docs/configuration-files.md"),
    ("keepalive_timeout", "`keep_alive_timeout` in [limits]"),
    ("limit_conn", "`concurrent` of [limit.NAME]: docs/limits.md"),
    ("limit_req", "`rate` of [limit.NAME]: docs/limits.md"),
    (
        "location",
        "[[site.route]] with `path`: the first that matches counts, and `/*` takes all that is left",
    ),
    ("proxy_buffering", "nothing to set: responses are passed on as they come"),
    ("proxy_connect_timeout", "`connect_timeout` in [pool.NAME]"),
    ("proxy_hide_header", HIDE),
    (
        "proxy_pass",
        "`connect = \"http://127.0.0.1:9000\"` in [pool.NAME], and `pool = \"NAME\"` in [[site.route]]",
    ),
    ("proxy_read_timeout", "`request_timeout` in [pool.NAME]"),
    (
        "proxy_set_header",
        "`request_headers = { set = { NAME = \"value\" } }` in [[site]] or [[site.route]]; X-Forwarded-For, -Proto, -Host and \
         Forwarded are always there",
    ),
    ("real_ip_header", "`client_address_from` in [server], with `trusted_proxies`"),
    ("return", "`redirect` or `respond` in [[site.route]]"),
    (
        "reverse_proxy",
        "`connect = \"http://127.0.0.1:9000\"` in [pool.NAME], and `pool = \"NAME\"` in [[site.route]]",
    ),
    ("rewrite", "`rewrite`, `reroute` or `redirect` in [[site.route]], with `path_regex`: docs/routing.md"),
    ("server_name", "`hosts = [\"example.com\"]` in [[site]]"),
    ("server_tokens", "`server_header` in [server]"),
    ("set_real_ip_from", "`trusted_proxies` in [server]"),
    ("ssl_certificate", "`certificates = [{ certificate = \"…\", key = \"…\" }]` in [[site]]"),
    ("ssl_certificate_key", "`certificates = [{ certificate = \"…\", key = \"…\" }]` in [[site]]"),
    ("ssl_ciphers", "`tls = { ciphers = […] }` in [[listen]]"),
    ("ssl_protocols", "`tls = { versions = [\"1.2\", \"1.3\"] }` in [[listen]]"),
    ("tls_certificate", "`certificates = [{ certificate = \"…\", key = \"…\" }]` in [[site]]"),
    ("try_files", "`try` in [[site]] or [[site.route]]"),
    ("upstream", "[pool.NAME] with `connect`, one address or several"),
    (
        "uwsgi_pass",
        "`command = [\"python3\", \"-m\", \"maitred\", \"app:app\"]` in [pool.NAME]: docs/applications.md",
    ),
    ("worker_connections", "`connections_per_thread_max` in [limits]"),
    ("worker_processes", "`threads` in [server]"),
];

/// What a word of another server is here.
pub(super) fn counterpart(word: &str) -> Option<&'static str> {
    WORDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)).map(|(_, here)| *here)
}

/// Why something that starts neither with `/` nor with `*` is no pattern of paths, and what to write.
pub(super) fn path_hint(text: &str) -> String {
    let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    match mark {
        "=" if rest.starts_with('/') => format!("a path without `*` is exact: write \"{rest}\""),
        "^~" if rest.starts_with('/') => format!("write \"{rest}*\"; the first route that matches counts"),
        "~" | "~*" => match suffix(rest) {
            Some(suffix) => format!("there are no regular expressions: write \"*{suffix}\""),
            None => {
                "there are no regular expressions: `*` stands for anything, as in \"*.php\" or \"/app/*\""
                    .into()
            }
        },
        _ if text.starts_with('@') => NO_NAMED_LOCATIONS.into(),
        _ => format!("it starts with `/`: write \"/{text}\""),
    }
}

/// Of `@name`.
pub(super) const NO_NAMED_LOCATIONS: &str = "there are no named locations: a route of its own, behind this one, leads the paths that are left to a pool";

/// `.php` of `\.php$`.
fn suffix(expression: &str) -> Option<&str> {
    let name = expression.strip_prefix('\\')?.strip_suffix('$')?;
    let plain = name.get(1..)?.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (name.starts_with('.') && name.len() > 1 && plain).then_some(name)
}

/// The words of a command line, as an array in TOML; quotation marks keep words together.
pub(super) fn as_array(line: &str) -> String {
    let (mut words, mut quote) = (vec![String::new()], None);
    for letter in line.trim().chars() {
        match (quote, letter) {
            (Some(mark), _) if mark == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, ' ' | '\t') => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(letter)),
        }
    }
    let shown: Vec<String> =
        words.iter().filter(|word| !word.is_empty()).map(|word| format!("{word:?}")).collect();
    format!("[{}]", shown.join(", "))
}

/// The form of a text that is not TOML, and advice.
pub(super) fn form(text: &str) -> Option<(&'static str, &'static str)> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines().next()?;
    let word = |line: &str| line.split([' ', '\t', '{', ';']).next().unwrap_or_default().to_owned();
    const BLOCKS: [&str; 6] = ["server", "http", "events", "location", "upstream", "stream"];
    let is_block =
        |line: &str| line.ends_with('{') && !line.contains('=') && BLOCKS.contains(&word(line).as_str());
    if first.starts_with('{') {
        return Some(("JSON", "`maitred import unit FILE` translates the configuration of NGINX Unit"));
    }
    if first.starts_with('<') && first.ends_with('>') {
        return Some(("a configuration of Apache", "docs/from-apache.md has what its directives are here"));
    }
    if lines().any(is_block) || lines().filter(|line| line.ends_with(';')).count() * 2 > lines().count() {
        return Some(("a configuration of nginx", "`maitred import nginx FILE` translates it"));
    }
    let is_key = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    if first == "---"
        || first
            .split_once(':')
            .is_some_and(|(name, rest)| is_key(name) && (rest.is_empty() || rest.starts_with(' ')))
    {
        return Some((
            "YAML",
            "a configuration of Maitred is in TOML: docs/configuration-files.md, or `maitred init`",
        ));
    }
    (first.ends_with('{') && !first.contains('='))
        .then_some(("a Caddyfile", "`maitred import caddy FILE` translates it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_others_have_their_form_here() {
        for (text, hint) in [
            ("app", "it starts with `/`: write \"/app\""),
            ("= /x", "a path without `*` is exact: write \"/x\""),
            ("^~ /images/", "write \"/images/*\"; the first route that matches counts"),
            ("~ \\.php$", "there are no regular expressions: write \"*.php\""),
            ("~* \\.jpg$", "there are no regular expressions: write \"*.jpg\""),
        ] {
            assert_eq!(path_hint(text), hint);
        }
        for text in ["~ ^/(a|b)$", "~", "~ \\.(a|b)$", "~ \\$"] {
            assert!(path_hint(text).contains("`*` stands for anything"), "{text}");
        }
        assert_eq!(path_hint("@backend"), NO_NAMED_LOCATIONS);
    }

    #[test]
    fn files_of_others_are_known_by_their_form() {
        for (text, what) in [
            ("# mine\nserver {\n  listen 80;\n}\n", "nginx"),
            ("user www-data;\nworker_processes auto;\nevents {}\n", "nginx"),
            ("example.com {\n  reverse_proxy :8000\n}\n", "Caddyfile"),
            ("{\n  \"listeners\": {}\n}\n", "JSON"),
            ("<VirtualHost *:80>\n", "Apache"),
            ("listen:\n  - ':80'\n", "YAML"),
            ("---\nhttp:\n", "YAML"),
        ] {
            assert!(form(text).is_some_and(|(found, _)| found.contains(what)), "{text}: {:?}", form(text));
        }
        for text in
            ["", "[server]\nthreads = many\n", "[[listen]]\naddress = \":80\n", "listen = [\n", "a = {\n"]
        {
            assert_eq!(form(text), None, "{text}");
        }
    }

    #[test]
    fn command_lines_are_split() {
        assert_eq!(as_array("python app.py"), r#"["python", "app.py"]"#);
        assert_eq!(as_array(" a  'b c' --d=\"e f\" "), r#"["a", "b c", "--d=e f"]"#);
    }

    #[test]
    fn every_word_is_found_and_documented() {
        let guide = include_str!("../../../docs/from-nginx.md");
        for (word, here) in WORDS {
            assert_eq!(counterpart(word), Some(*here));
            assert!(guide.contains(&format!("`{word}`")), "docs/from-nginx.md says nothing of {word}");
        }
        assert!(WORDS.is_sorted());
    }
}
