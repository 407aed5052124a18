//! What an import says of the connection, of fields, and of who may: the places in which another meaning would not be seen.

use super::{World, maitred, said, text};

/// The output for a text of nginx, without comments, and its table.
fn imported(world: &World, source: &str) -> (String, String) {
    let path = world.directory.path().join("source");
    std::fs::write(&path, world.place(source)).unwrap();
    let imported = maitred(&["import", "nginx", path.to_str().unwrap()]);
    let output = text(&imported.stdout);
    let lines = output.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
    let bare = lines.map(|line| line.split("  # ").next().unwrap_or_default().to_owned());
    (bare.collect::<Vec<_>>().join("\n"), text(&imported.stderr))
}

fn has(output: &str, parts: &[&str]) {
    for part in parts {
        assert!(output.contains(part), "{part}\n\n{output}");
    }
}

#[test]
fn servers_of_two_addresses_are_sites_of_two_listeners() {
    let world = World::new();
    let two = "server { listen 80; server_name a.example.com; return 204; }\n\
               server { listen 127.0.0.1:8080; server_name a.example.com; return 200 inside; }\n";
    let (output, _) = imported(&world, two);
    has(
        &output,
        &[
            "hosts = [\"a.example.com\"]\nlisten = \":80\"",
            "hosts = [\"a.example.com\"]\nlisten = \"127.0.0.1:8080\"",
        ],
    );
    assert!(!output.contains("Host =") && !output.contains("client ="), "{output}");
    // One port of two addresses, and a Unix socket.
    let source = "server { listen 10.0.0.1:80; return 204; } server { listen 10.0.0.2:80; return 200 b; }\n\
                  server { listen unix:/run/x.sock; return 200 c; }";
    let (output, _) = imported(&world, source);
    has(&output, &["listen = \"10.0.0.1:80\"", "listen = \"10.0.0.2:80\"", "listen = \"unix:/run/x.sock\""]);
    // The default of each address comes first there, also where the file has another order.
    let source = "server { listen 80; listen 81 default_server; server_name a.example.com; return 200 a; }\n\
                  server { listen 80 default_server; listen 81; server_name b.example.com; return 200 b; }";
    let (output, _) = imported(&world, source);
    let sites: Vec<&str> = output.split("[[site]]").skip(1).collect();
    let first = |listen: &str| sites.iter().find(|site| site.contains(listen)).unwrap().to_string();
    assert!(first("\":80\"").contains("body = \"b\""), "{output}");
    let of_81 = sites.iter().find(|site| site.contains(":81") || !site.contains("listen")).unwrap();
    assert!(of_81.contains("body = \"a\""), "{output}");
    // All servers at all addresses need no listeners.
    let (output, _) =
        imported(&world, "server { listen 80; listen 8080; server_name a.example.com; return 204; }");
    assert!(!output.contains("listen ="), "{output}");
}

#[test]
fn fields_that_maitred_does_not_send_are_set() {
    let world = World::new();
    let of = |field: &str| {
        let source = format!(
            "server {{ listen 80; location / {{ proxy_pass http://127.0.0.1:1; proxy_set_header {field}; }} }}"
        );
        imported(&world, &source)
    };
    for (field, rule) in [
        ("X-Real-IP $remote_addr", "X-Real-IP = \"{client}\""),
        ("X-Forwarded-Port $server_port", "X-Forwarded-Port = \"{port}\""),
        ("X-Scheme $scheme", "X-Scheme = \"{scheme}\""),
        ("X-Original-URI $request_uri", "X-Original-URI = \"{uri}\""),
        ("X-Forwarded-Ssl on", "X-Forwarded-Ssl = \"on\""),
        ("X-Id \"{$request_id}\"", "X-Id = \"{{{request_id}}}\""),
    ] {
        let (output, table) = of(field);
        assert!(output.contains(rule) && table.contains("translated"), "{field}\n{output}\n{table}");
    }
    for (field, kind) in [
        ("X-Forwarded-For $proxy_add_x_forwarded_for", "differs (better)"),
        ("X-Forwarded-Proto $scheme", "not needed"),
        ("X-Forwarded-Proto https", "differs (worse)"),
        ("X-Forwarded-Proto $http_x_forwarded_proto", "differs (worse)"),
        ("X-Real-IP $http_cf_connecting_ip", "not possible"),
        ("X-Request-ID $request_id", "not needed"),
        ("X-A $upstream_addr", "not possible"),
    ] {
        let (output, table) = of(field);
        assert!(table.contains(kind) && !output.contains("request_headers"), "{field}\n{output}\n{table}");
    }
}

#[test]
fn the_target_goes_on_as_it_was_sent_where_nginx_does_that() {
    let world = World::new();
    let of = |pass: &str| imported(&world, &format!("server {{ location /a/ {{ proxy_pass {pass}; }} }}")).0;
    assert!(of("http://127.0.0.1:1").contains("target = \"as_sent\""));
    assert!(of("http://127.0.0.1:1$request_uri").contains("target = \"as_sent\""));
    for other in ["http://127.0.0.1:1/", "http://127.0.0.1:1/b/", "http://127.0.0.1:1$uri$is_args$args"] {
        assert!(!of(other).contains("as_sent"), "{other}");
    }
    assert!(of("http://127.0.0.1:1").contains("host = \"server\""));
    let (output, _) =
        imported(&world, "server { location / { proxy_pass http://127.0.0.1:1; proxy_redirect off; } }");
    assert!(output.contains("map_redirects = false"), "{output}");
    let (output, table) = imported(
        &world,
        "server { listen 80; location / { proxy_pass http://127.0.0.1:1; proxy_redirect https:// $scheme://; } }",
    );
    assert!(output.contains("redirects = { \"https://\" = \"http://\" }"), "{output}{table}");
}

#[test]
fn what_guards_a_location_is_never_left_open() {
    let world = World::new();
    let (output, table) = imported(
        &world,
        "server { location / { root /srv/import/www; if ($secure_link = \"\") { return 403; } } }",
    );
    assert!(output.contains("respond = { status = 403 }"), "{output}");
    assert!(said(&table, "  not possible").iter().any(|row| row.starts_with("if ")), "{table}");
    let tls = "listen 443 ssl; ssl_certificate /srv/import/c.pem; ssl_certificate_key /srv/import/c.pem;";
    let ca = "ssl_client_certificate /nowhere/ca.pem; ssl_verify_client on;";
    let (output, table) = imported(&world, &format!("server {{ {tls} {ca} root /srv/import/www; }}"));
    assert!(table.contains("answers 403 instead"), "{table}");
    assert!(!output.contains("root = "), "{output}");
    // What `maitred check` refuses, too: a certificate that is none leaves no address without TLS, and no site at another one.
    let bad = tls.replace("c.pem", "www/a.txt");
    let source = format!(
        "server {{ listen 80; return 204; }} server {{ {bad} server_name a.example; root /srv/import/www; }}"
    );
    let (output, table) = imported(&world, &source);
    assert!(!output.contains(":443") && !output.contains("root = "), "{output}{table}");
    let source =
        "server { listen 80; root /srv/import/www; if ($ssl_client_verify != SUCCESS) { return 403; } }";
    let (output, table) = imported(&world, source);
    has(&output, &["respond = { status = 403 }"]);
    assert!(!output.contains("path = \"/*\"\npool"), "{output}{table}");
    let (output, _) = imported(
        &world,
        "server { location / { root /srv/import/www; valid_referers none a.example; if ($invalid_referer) { return 403; } } }",
    );
    has(&output, &["Referer = \"~.\"", "not = [", "respond = { status = 403 }"]);
}

#[test]
fn a_log_to_nowhere_is_off() {
    let world = World::new();
    let (output, _) = imported(&world, "access_log /dev/null; server { listen 80; return 204; }");
    has(&output, &["[log]\naccess = \"off\""]);
    let (output, _) = imported(
        &world,
        "access_log /srv/import/log/a; server { access_log /dev/null; listen 80; return 204; }",
    );
    has(&output, &["access_log = false"]);
    assert!(!output.contains("/dev/null"), "{output}");
}

#[test]
fn a_variable_with_fixed_values_is_several_routes() {
    let world = World::new();
    let source = "map $host $to { default 127.0.0.1:1; b.example.com 127.0.0.1:2; }\n\
                  server { location / { proxy_pass http://$to; } }";
    let (output, _) = imported(&world, source);
    has(
        &output,
        &[
            "match = { header = { Host = \"b.example.com\" } }",
            "http://127.0.0.1:1\"",
            "http://127.0.0.1:2\"",
        ],
    );
    let at = |text: &str| output.find(text).unwrap();
    assert!(at("b.example.com") < at("path = \"/*\"\npool = \"app-1\""), "{output}");
}

#[test]
fn requests_that_pass_the_cache_by_are_routes() {
    let world = World::new();
    let source = "proxy_cache_path /tmp/c keys_zone=z:1m;\nserver { location / { proxy_cache z; proxy_cache_valid 1m; \
                  proxy_cache_bypass $cookie_a; proxy_no_cache $cookie_a; proxy_pass http://127.0.0.1:1; } }";
    let (output, _) = imported(&world, source);
    has(&output, &["match = { cookie = { a = \"~.\" } }", "cookies = true"]);
    assert_eq!(output.matches("cache = {").count(), 1, "{output}");
    let unknown = source.replace("$cookie_a", "$upstream_addr");
    let (output, table) = imported(&world, &unknown);
    assert!(!output.contains("cache = {") && table.contains("nothing is kept there"), "{output}\n{table}");
}

/// What comes out is about as long as what was there: the median of the samples, in bytes.
#[test]
fn an_output_is_not_much_longer_than_its_configuration() {
    let world = World::new();
    let length = |text: &str| -> usize {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.map(|line| line.split("  # ").next().unwrap_or_default().trim().len() + 1).sum()
    };
    let mut ratios: Vec<usize> = Vec::new();
    for sample in world.samples("nginx") {
        let source = std::fs::read_to_string(&sample.path).unwrap();
        let output = text(&maitred(&["import", "nginx", sample.path.to_str().unwrap()]).stdout);
        // The account is this machine's.
        let output =
            output.lines().filter(|line| !line.starts_with("user = ")).collect::<Vec<_>>().join("\n");
        ratios.push(length(&output) * 100 / length(&source));
    }
    ratios.sort_unstable();
    let median = ratios[ratios.len() / 2];
    assert!(median <= MEDIAN_MAX, "the median is {median} % of {}: {ratios:?}", ratios.len());
}

/// In percent of the bytes of a configuration, both without comments and indentation.
const MEDIAN_MAX: usize = 125;

/// The output for a file of Apache's, and its table.
fn of_apache(world: &World, source: &str, more: &[&str]) -> (String, String) {
    let path = world.directory.path().join("site.conf");
    std::fs::write(&path, world.place(source)).unwrap();
    let imported = maitred(&[&["import", "apache", path.to_str().unwrap()], more].concat());
    (text(&imported.stdout), text(&imported.stderr))
}

#[test]
fn what_apache_says_to_php_is_said_to_php_fpm() {
    let world = World::new();
    world.sites();
    let source = "<VirtualHost *:80>\nServerName ${NAME}\nDocumentRoot /srv/import/sites/php\n\
                  DirectoryIndex index.php\n<IfModule mod_php.c>\nphp_value memory_limit 256M\n</IfModule>\n\
                  php_flag display_errors off\nphp_admin_value open_basedir /srv/a:/tmp\n\
                  <Directory /srv/import/sites/php/tools>\nphp_flag engine off\n</Directory>\n</VirtualHost>\n";
    let (output, table) =
        of_apache(&world, source, &["--defined", "NAME=a.example", "--php-fpm", "fastcgi://127.0.0.1:9000"]);
    has(
        &output,
        &[
            "hosts = [\"a.example\"]",
            "connect = \"fastcgi://127.0.0.1:9000\"",
            "PHP_VALUE = \"memory_limit=\\\"256M\\\"\\ndisplay_errors=0\"",
            "PHP_ADMIN_VALUE = 'open_basedir=\"/srv/a:/tmp\"'",
        ],
    );
    // The directory without scripts comes before the scripts of the others.
    let (closed, scripts) = (output.find("/tools/*.php").unwrap(), output.find("[\"*.php\"").unwrap());
    assert!(closed < scripts && output[closed..scripts].contains("status = 403"), "{output}");
    has(
        &table,
        &["differs (better), because scripts there are not run", "differs (a choice), because PHP runs in"],
    );
    // Without an address, that of Debian.
    let (output, table) = of_apache(&world, source, &[]);
    has(&output, &["connect = \"fastcgi+unix:/run/php/php-fpm.sock\""]);
    has(&table, &["`--defined NAME=VALUE` gives it one"]);
    let refused = maitred(&["import", "apache", "x", "--php-fpm", "127.0.0.1:9000"]);
    assert!(text(&refused.stderr).contains("fastcgi://127.0.0.1:9000"), "{}", text(&refused.stderr));
}

#[test]
fn what_is_closed_stays_closed_behind_a_name() {
    let world = World::new();
    world.sites();
    let source = "<VirtualHost *:80>\nServerName a.example\nDocumentRoot /srv/import/sites/php\n\
                  <FilesMatch \"(?i)^info.*\\.php$\">\nRequire all denied\n</FilesMatch>\n\
                  AddHandler application/x-httpd-php .php .php7\n</VirtualHost>\n";
    let (output, _) = of_apache(&world, source, &[]);
    // What stands behind the name of a script is for the script.
    has(&output, &["path_regex = '(?i)/info[^/]*\\.php(?:/|$)'"]);
}
