//! What some configurations become, to the letter: the form in which people would write them.

use super::{World, maitred, text};

/// The output for a text, without the comments.
fn imported(world: &World, server: &str, source: &str) -> String {
    let path = world.directory.path().join("source");
    std::fs::write(&path, world.place(source)).unwrap();
    let output = text(&maitred(&["import", server, path.to_str().unwrap()]).stdout);
    let lines = output.lines().filter(|line| !line.starts_with('#'));
    let bare: Vec<&str> = lines.map(|line| line.split("  # ").next().unwrap_or(line)).collect();
    let tables: Vec<&str> =
        bare.split(|line| line.is_empty()).filter(|table| !table.is_empty()).map(|_| "").collect();
    assert!(!tables.is_empty(), "{output}");
    // The account is the machine's.
    let joined = bare.join("\n");
    let without = joined.split("\n\n").filter(|table| !table.trim_start().starts_with("[server]"));
    let blocks: Vec<&str> = without.map(str::trim).filter(|table| !table.is_empty()).collect();
    blocks.join("\n\n").replace(world.directory.path().join("srv").to_str().unwrap(), "/srv/import")
}

#[test]
fn a_proxy_is_a_route_and_a_pool() {
    let world = World::new();
    let source = "server {\n listen 80;\n server_name a.example.com;\n client_max_body_size 50m;\n location / {\n \
                  proxy_pass http://127.0.0.1:3000;\n proxy_read_timeout 5m;\n }\n}\n";
    let output = imported(&world, "nginx", source);
    for part in [
        "[[listen]]\naddress = \":80\"",
        "[[site]]\nhosts = [\"a.example.com\"]",
        "[[site.route]]\npath = \"/*\"\npool = \"app-3000\"",
        "[pool.app-3000]\nconnect = \"http://127.0.0.1:3000\"\nrequest_timeout = \"5m\"",
    ] {
        assert!(output.contains(part), "{part}\n\n{output}");
    }
}

#[test]
fn an_included_file_counts_whatever_its_name_is() {
    let world = World::new();
    for name in [
        "ssl.conf",
        "proxy.conf",
        "fastcgi-php.conf",
        "fastcgi_params",
        "mime.types",
        "options-ssl-nginx.conf",
    ] {
        std::fs::write(world.directory.path().join(name), "deny all;").unwrap();
        let source =
            format!("server {{ listen 80; location / {{ include {name}; root /srv/import/www; }} }}");
        let output = imported(&world, "nginx", &source);
        assert!(output.contains("respond = { status = 403 }"), "{name}\n{output}");
    }
}

#[test]
fn what_is_not_a_file_is_answered_by_its_own_location() {
    let world = World::new();
    let source = "upstream app { server 127.0.0.1:9; }\nserver { listen 80; root /srv/import/www; \
                  location / { try_files $uri @app; expires max; add_header X-A 1; } \
                  location @app { proxy_pass http://app; add_header X-B 2; } }";
    let output = imported(&world, "nginx", source);
    let headers = "headers = { set = { X-A = \"1\", Cache-Control = \"max-age=315360000\" } }";
    assert!(output.contains(headers) && !output.contains("expires"), "{output}");
    let source = "server { listen 80; root /srv/import/www; location / { try_files $uri /index.html; } \
                  location ~ \\.html$ { add_header Cache-Control no-store; } }";
    let output = imported(&world, "nginx", source);
    assert!(output.contains("expires = { \"index.html\" = \"no-store\" }"), "{output}");
}

#[test]
fn a_rewrite_that_is_not_possible_closes_its_location() {
    let world = World::new();
    for rewrite in ["rewrite ^/a/(?<!x)b /c break;", "rewrite (?=x) /c last;"] {
        let source = format!("server {{ listen 80; location /a/ {{ {rewrite} root /srv/import/www; }} }}");
        let output = imported(&world, "nginx", &source);
        assert!(output.contains("respond = { status = 403 }") && !output.contains("root ="), "{output}");
    }
}

#[test]
fn what_stands_behind_the_name_of_a_script_runs_none() {
    let world = World::new();
    let php = |index: &str, tries: &str, regex: &str| {
        let source = format!(
            "server {{ listen 80; root /srv/import/www; {index} location / {{ {tries} }} \
             location ~ {regex} {{ fastcgi_pass 127.0.0.1:9; }} }}"
        );
        imported(&world, "nginx", &source)
    };
    let front = "try_files $uri $uri/ /index.php?$args;";
    let output = php("index index.php;", front, r"\.php$");
    assert!(
        output.contains("path = \"*.php/*\"\npool = \"php\"\nfront_controller = \"index.php\""),
        "{output}"
    );
    let output = php("index index.php;", front, r"\.php(/|$)");
    assert!(!output.contains("front_controller"), "{output}");
    // An index that is a script, without a front controller.
    let output = php("index index.php index.html;", "try_files $uri $uri/ =404;", r"\.php$");
    assert!(output.contains("path = \"*.php/*\"\nrespond = { status = 404 }"), "{output}");
    assert!(output.contains("try = [\"{path}\", \"pool:php\"]"), "{output}");
    // Without a location that runs it, it is a file.
    let output = imported(&world, "nginx", "server { listen 80; root /srv/import/www; index index.php; }");
    assert!(output.contains("index = [\"index.php\"]"), "{output}");
}

#[test]
fn an_address_of_both_families_is_listed_once() {
    let world = World::new();
    let output = imported(&world, "nginx", "server { listen 80; listen [::]:80; return 204; }");
    assert!(output.contains("address = \"[::]:80\"") && !output.contains("address = \":80\""), "{output}");
}

/// HTTP/3 is a key of the address with TLS, whichever of the two families `listen … quic` names.
#[test]
fn quic_is_http_3_of_the_address_with_tls() {
    let world = World::new();
    let output = |listens: &str| {
        let source = format!("server {{ {listens} server_name a.example.com; return 204; }}");
        let path = world.directory.path().join("quic");
        std::fs::write(&path, source).unwrap();
        // Without its certificate on this machine, the address is a comment.
        text(&maitred(&["import", "nginx", path.to_str().unwrap()]).stdout)
    };
    let ssl = "listen 443 ssl; listen [::]:443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key;";
    assert!(output(&format!("{ssl} listen 443 quic reuseport; http3 on;")).contains("http3 = true"));
    assert!(output(&format!("{ssl} listen [::]:443 quic;")).contains("http3 = true"));
    for without in ["", "listen 443 quic; http3 off;", "listen 8443 quic;"] {
        assert!(!output(&format!("{ssl} {without}")).contains("http3 = true"), "{without}");
    }
}

#[test]
fn the_host_of_a_server_is_its_own_where_the_file_says_so() {
    let world = World::new();
    let nginx = |host: &str| {
        let source = format!(
            "upstream group {{ server 127.0.0.1:3000; server 127.0.0.1:3001; }}\n\
             server {{ listen 80; location / {{ proxy_pass http://group; proxy_set_header Host {host}; }} }}"
        );
        imported(&world, "nginx", &source)
    };
    for (host, expected) in [("$proxy_host", "group"), ("inner.example:81", "inner.example:81")] {
        let line = format!("host = \"{expected}\"");
        assert!(nginx(host).contains(&line), "{host}\n{}", nginx(host));
    }
    assert!(!nginx("$http_host").contains("host ="), "the client's is the default");
    let source =
        ":80 {\n reverse_proxy 127.0.0.1:3000 127.0.0.1:3001 {\n header_up Host {upstream_hostport}\n }\n}\n";
    let output = imported(&world, "caddy", source);
    assert!(output.contains("host = \"server\""), "{output}");
    let source = ":80 {\n reverse_proxy 127.0.0.1:3000 {\n transport http {\n proxy_protocol v2\n }\n }\n}\n";
    let output = imported(&world, "caddy", source);
    assert!(output.contains("proxy_protocol = \"v2\""), "{output}");
}

#[test]
fn a_unix_socket_is_an_address() {
    let world = World::new();
    let output = imported(
        &world,
        "nginx",
        "server { listen 80; listen unix:/run/x.sock proxy_protocol; return 204; }",
    );
    assert!(output.contains("address = \":80\"\n\n[[listen]]"), "{output}");
    let listen = "[[listen]]\naddress = \"unix:/run/x.sock\"\nunix_mode = \"0666\"\nproxy_protocol = true";
    assert!(output.contains(listen), "{output}");
    let path = world.directory.path().join("source");
    std::fs::write(&path, "server { listen unix:/run/x.sock; set_real_ip_from unix:; return 204; }").unwrap();
    let output = text(&maitred(&["import", "nginx", path.to_str().unwrap()]).stdout);
    assert!(output.contains("trusted_proxies = [\"unix\"]"), "{output}");
    let unit = "{\"listeners\": {\"unix:/run/x.sock\": {\"pass\": \"routes\"}}, \"routes\": [{\"action\": {\"return\": 204}}]}";
    let output = imported(&world, "unit", unit);
    assert!(output.contains("[[listen]]\naddress = \"unix:/run/x.sock\"\nunix_mode = \"0666\""), "{output}");
}

#[test]
fn limits_by_client_know_who_is_exempt() {
    let world = World::new();
    let source = "geo $limited { default 1; 10.0.0.0/8 0; }\nmap $limited $key { 0 \"\"; 1 $binary_remote_addr; }\n\
                  limit_req_zone $key zone=login:10m rate=5r/m;\nlimit_req_zone $http_x_api_key zone=api:10m rate=30r/s;\n\
                  server { listen 80; root /srv/import/www;\n\
                  location /login { limit_req zone=login burst=4 nodelay; proxy_pass http://127.0.0.1:1; }\n\
                  location /api/ { limit_req zone=api; limit_req_dry_run on; proxy_pass http://127.0.0.1:1; } }";
    let output = imported(&world, "nginx", source);
    for part in [
        "path = \"/login*\"\npool = \"app-1\"\nlimit = [\"login\"]",
        "path = \"/api/*\"\npool = \"app-1\"\nlimit = [\"api\"]",
        "[limit.login]\nrate = \"5/min\"\nburst = 4\nexempt = [\"10.0.0.0/8\"]",
        "[limit.api]\nrate = \"30/s\"\nburst = 0\nkey = \"header:X-Api-Key\"\ndry_run = true",
    ] {
        assert!(output.contains(part), "{part}\n\n{output}");
    }
}

#[test]
fn another_server_decides_before_the_pool_is_asked() {
    let world = World::new();
    let source = "server {\n listen 80;\n location = /auth {\n internal;\n proxy_pass http://127.0.0.1:9091/api/verify;\n \
                  proxy_pass_request_body off;\n proxy_set_header Content-Length \"\";\n }\n location / {\n \
                  auth_request /auth;\n auth_request_set $user $upstream_http_remote_user;\n \
                  proxy_set_header Remote-User $user;\n proxy_pass http://127.0.0.1:3000;\n }\n}\n";
    let output = imported(&world, "nginx", source);
    let gate =
        "forward_auth = { pool = \"app-9091\", path = \"/api/verify\", copy_headers = [\"Remote-User\"] }";
    assert!(
        output.contains(gate) && output.contains("path = \"/auth\"\nrespond = { status = 404 }"),
        "{output}"
    );
    // Where the other server cannot be asked, the location is closed.
    let unknown = source.replace("127.0.0.1:9091/api", "$host/api");
    let output = imported(&world, "nginx", &unknown);
    assert!(
        output.contains("respond = { status = 403 }") && !output.contains("pool = \"app-3000\""),
        "{output}"
    );
}

#[test]
fn addresses_are_keys_of_a_route() {
    let world = World::new();
    let source = "server { listen 80; root /srv/import/www;\n location /a/ { deny 10.0.0.9; allow 10.0.0.0/8; deny all; }\n\
                  location /b/ { deny 192.0.2.1; }\n location /c/ { allow 10.0.0.0/8; deny 10.0.0.9; } }";
    let output = imported(&world, "nginx", source);
    assert!(output.contains("allow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.9\"]"), "{output}");
    assert!(
        output.contains("path = \"/b/*\"\nroot = \"/srv/import/www\"\ndeny = [\"192.0.2.1\"]"),
        "{output}"
    );
    // A network within another one, in turn: closed.
    assert!(output.contains("path = \"/c/*\"\nrespond = { status = 403 }"), "{output}");
}

#[test]
fn files_that_responses_name_are_those_of_internal_locations() {
    let world = World::new();
    let source = "server { listen 80; location / { proxy_pass http://127.0.0.1:1; }\n\
                  location /protected/ { internal; alias /srv/import/media/; } }";
    let output = imported(&world, "nginx", source);
    assert!(output.contains("named_files = { \"/protected/\" = \"/srv/import/media\" }"), "{output}");
    assert!(output.contains("path = \"/protected/*\"\nrespond = { status = 404 }"), "{output}");
}

#[test]
fn logs_have_the_names_of_their_files() {
    let world = World::new();
    let source = "log_format timed '$host \"$request\" $request_time';\n\
                  server { listen 80; root /srv/import/www; access_log /srv/import/log/shop.log timed;\n\
                  location /assets/ { access_log off; } }";
    let output = imported(&world, "nginx", source);
    let log =
        "[access_log.shop]\nto = \"/srv/import/log/shop.log\"\nformat = '{host} \"{request}\" {duration}'";
    assert!(output.contains("access_log = \"shop\"") && output.contains("access_log = false"), "{output}");
    assert!(output.contains(log), "{output}");
}

#[test]
fn what_a_matcher_protects_is_a_route_of_its_own() {
    let world = World::new();
    let hash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
    let source = format!(
        ":80 {{\n basic_auth /admin/* {{\n  bob {hash}\n }}\n handle /app/* {{\n  forward_auth 127.0.0.1:9091 {{\n   \
         uri /verify\n   copy_headers Remote-User\n  }}\n  reverse_proxy 127.0.0.1:7001\n }}\n reverse_proxy 127.0.0.1:7000\n}}\n"
    );
    let output = imported(&world, "caddy", &source);
    let users = format!("basic_auth = {{ realm = \"restricted\", users = {{ bob = \"{hash}\" }} }}");
    let at = |part: &str| output.find(part).unwrap_or_else(|| panic!("{part}\n\n{output}"));
    assert!(
        at("path_regex = \"(?i)^/admin/\"\npool = \"app-7000\"") < at("path = \"/*\"\npool = \"app-7000\""),
        "{output}"
    );
    assert_eq!(output.matches(&users).count(), 1, "{output}");
    at("forward_auth = { pool = \"app-9091\", path = \"/verify\", copy_headers = [\"Remote-User\"] }");
}

#[test]
fn what_cannot_be_protected_is_closed() {
    let world = World::new();
    let source =
        "server { listen 80; location / { satisfy any; auth_pam x; proxy_pass http://127.0.0.1:1; } }";
    let output = imported(&world, "nginx", source);
    assert!(output.contains("respond = { status = 403 }") && !output.contains("pool ="), "{output}");
}

#[test]
fn variables_that_are_not_set_are_taken_by_the_server() {
    let world = World::new();
    let source = "shop.{$IMPORT_TEST_DOMAIN} {\n reverse_proxy app:{$IMPORT_TEST_UPSTREAM} {\n  header_up X-Key {env.IMPORT_TEST_KEY}\n }\n}\n\
                  :{$IMPORT_TEST_PORT} {\n redir https://{$IMPORT_TEST_DOMAIN}{uri}\n}\n";
    let output = imported(&world, "caddy", source);
    for line in [
        "hosts = [\"shop.${IMPORT_TEST_DOMAIN:-import-test-domain.invalid}\"]",
        "connect = \"http://app:${IMPORT_TEST_UPSTREAM:-9}\"\n",
        "set = { X-Key = \"${IMPORT_TEST_KEY:-}\" }",
        "address = \"[::]:${IMPORT_TEST_PORT:-18325}\"\n",
        "redirect = \"https://${IMPORT_TEST_DOMAIN:-import-test-domain.invalid}{uri}\"",
    ] {
        assert!(output.contains(line), "{line}\n\n{output}");
    }
}

#[test]
fn a_caddyfile_keeps_the_order_of_caddy() {
    let world = World::new();
    let source = ":80 {\n respond \"rest\"\n redir /old /new 301\n handle_path /api/* {\n  reverse_proxy 127.0.0.1:8000\n }\n \
                  handle {\n  root * /srv/import/www\n  try_files {path} /index.html\n  file_server\n }\n}\n";
    let output = imported(&world, "caddy", source);
    let at = |part: &str| output.find(part).unwrap_or_else(|| panic!("{part}\n\n{output}"));
    assert!(at("path = \"/old\"\nredirect = \"/new\"\nstatus = 301") < at("strip_prefix = \"/api/\""));
    // What the last route would be is said by the site; `handle` answers everything that `respond` is for.
    assert!(
        at("root = \"/srv/import/www\"\ntry = [\"{path}\", \"/index.html\"]") < at("path = \"/old\""),
        "{output}"
    );
    assert!(!output.contains("rest"), "{output}");
}

/// Tokens of nginx Plus: `auth_jwt` with all that has a counterpart, and closed where it has none.
#[test]
fn tokens_are_checked_as_before_or_nothing_is_answered() {
    let world = World::new();
    let server = |more: &str| {
        let source = format!(
            "server {{ listen 80; location /x/ {{ {more} proxy_pass http://127.0.0.1:3000; }}\n\
             location = /_keys {{ internal; proxy_pass https://issuer.example/keys.json; }} }}"
        );
        imported(&world, "nginx", &source)
    };
    let file = "auth_jwt_key_file /srv/import/keys.json;";
    let output = server(&format!(
        "auth_jwt Api token=$cookie_session; {file} auth_jwt_leeway 30s; auth_jwt_claim_set $role realm role;\n\
         proxy_set_header X-Role $role; proxy_set_header X-Remote-User $jwt_claim_email; proxy_set_header X-S $jwt_claim_sub;"
    ));
    for part in [
        "jwt = {",
        "realm = \"Api\"",
        "jwks_file = \"/srv/import/keys.json\"",
        "issuer = \"*\"",
        "audience = \"*\"",
        "from = \"cookie:session\"",
        "leeway = \"30s\"",
        "user_claim = \"email\"",
        "X-Role = \"/realm/role\"",
        "X-S = \"sub\"",
    ] {
        assert!(output.contains(part), "{part}\n\n{output}");
    }
    let output = server("auth_jwt Api; auth_jwt_key_request /_keys;");
    assert!(output.contains("jwks_url = \"https://issuer.example/keys.json\""), "{output}");
    assert!(output.contains("leeway = \"0s\"") && !output.contains("from ="), "{output}");
    let output = server(&format!(
        "auth_jwt Api token=$http_x_token; {file} allow 192.0.2.0/24; deny all; satisfy any;"
    ));
    assert!(
        output.contains("from = \"header:x-token\"") || output.contains("from = \"header:X-Token\""),
        "{output}"
    );
    assert!(output.contains("satisfy = \"any\""), "{output}");
    for closed in [
        "auth_jwt Api;".to_owned(),
        format!("auth_jwt Api; {file} auth_jwt_require $ok;"),
        format!("auth_jwt Api; {file} auth_jwt_type encrypted;"),
        format!("auth_jwt Api token=$uri; {file}"),
        format!("auth_jwt Api; {file} auth_basic B; auth_basic_user_file /srv/import/users;"),
        "auth_jwt Api; auth_jwt_key_file /srv/import/none.json;".to_owned(),
        "auth_jwt Api; auth_jwt_key_file /srv/import/www/a.txt;".to_owned(),
    ] {
        let output = server(&closed);
        let route = output.split("path = \"/x/*\"").nth(1).unwrap().split("\n\n").next().unwrap();
        assert!(route.contains("403") || route.contains("deny = [\"@all\"]"), "{closed}\n{output}");
    }
}

#[test]
fn what_is_retried_checked_and_kept_together_is_said_of_the_pool() {
    let world = World::new();
    let nginx = imported(&world, "nginx", include_str!("nginx/balancing.conf"));
    for line in [
        "{ url = \"http://10.0.0.11:8080\", weight = 2 }",
        "slow_start = \"30s\"",
        "sticky = { cookie = \"shop_server\" }",
        "retry = { on = [\"unreachable\", \"broken\", \"timeout\", \"502\", \"503\"], attempts = 3 }",
        "health = { path = \"/healthz\", interval = \"10s\", port = 9001, unhealthy_after = 3, healthy_after = 2 }",
        "retry = { attempts = 1 }",
    ] {
        assert!(nginx.contains(line), "{line}\n\n{nginx}");
    }
    let source = ":80 {\n reverse_proxy 127.0.0.1:3000 127.0.0.1:3001 {\n lb_policy cookie shop\n lb_retries 2\n \
                  health_uri /up\n health_interval 10s\n health_status 2xx\n health_port 9001\n health_body fine\n }\n}\n";
    let caddy = imported(&world, "caddy", source);
    for line in [
        "sticky = { cookie = \"shop\" }",
        "retry = { attempts = 3 }",
        "path = \"/up\", interval = \"10s\", statuses = \"200-299\", port = 9001, body_contains = \"fine\", timeout = \"5s\", healthy_after = 1, unhealthy_after = 1",
    ] {
        assert!(caddy.contains(line), "{line}\n\n{caddy}");
    }
}

#[test]
fn calls_of_grpc_go_to_servers_of_http_2() {
    let world = World::new();
    let source = "upstream greeters { server 127.0.0.1:50061 weight=2; server 127.0.0.1:50062; }\nserver {\n listen 80;\n \
                  location /one/ { grpc_pass grpc://127.0.0.1:50051; grpc_set_header X-Tenant shop; grpc_read_timeout 10m; }\n \
                  location /pooled/ { grpc_pass greeters; }\n location /socket/ { grpc_pass unix:/run/greeter.sock; }\n \
                  location /tls/ { grpc_pass grpcs://127.0.0.1:50052; grpc_ssl_name inner.example; grpc_ssl_verify on; }\n}\n";
    let output = imported(&world, "nginx", source);
    for part in [
        "path = \"/one/*\"\npool = \"app-50051\"",
        "set = { X-Tenant = \"shop\" }",
        "connect = \"h2://127.0.0.1:50051\"\nrequest_timeout = \"10m\"",
        "connect = [{ url = \"h2://127.0.0.1:50061\", weight = 2 }, \"h2://127.0.0.1:50062\"]",
        "connect = \"h2+unix:/run/greeter.sock\"",
        "connect = \"https://127.0.0.1:50052\"",
        "tls = { http2 = true, server_name = \"inner.example\" }",
    ] {
        assert!(output.contains(part), "{part}\n\n{output}");
    }
}

#[test]
fn a_field_of_json_has_no_placeholders() {
    let source = "server {\n listen 80;\n add_header NEL '{\"report_to\":\"a\"}';\n root /srv;\n}\n";
    let output = imported(&World::new(), "nginx", source);
    assert!(output.contains("NEL = '{{\"report_to\":\"a\"}}'"), "{output}");
}

#[test]
fn servers_of_http_2_stay_such_of_caddy() {
    let world = World::new();
    let source = ":80 {\n\treverse_proxy /one/* h2c://127.0.0.1:50051\n\treverse_proxy /socket/* unix+h2c//run/greeter.sock\n}\n";
    let output = imported(&world, "caddy", source);
    for part in ["connect = \"h2://127.0.0.1:50051\"", "connect = \"h2+unix:/run/greeter.sock\""] {
        assert!(output.contains(part), "{part}\n\n{output}");
    }
}

#[test]
fn names_that_are_looked_up_again_and_statuses_that_count_stay() {
    let world = World::new();
    let source = "upstream shop {\n zone shop 64k;\n resolver 127.0.0.53 valid=30s;\n server shop.none.example:8080 resolve max_fails=3 \
                  fail_timeout=20s;\n server srv.none.example service=http resolve;\n}\n\
                  server {\n listen 80;\n resolver 127.0.0.53;\n set $backend http://api.none.example:9000;\n \
                  location /api/ { proxy_pass $backend; }\n \
                  location / { proxy_pass http://shop; proxy_next_upstream error http_503; proxy_next_upstream_timeout 5s; }\n}\n";
    let nginx = imported(&world, "nginx", source);
    for line in [
        "connect = [\"http://shop.none.example:8080\", \"http+srv://_http._tcp.srv.none.example\"]\nresolve = true",
        "outliers = { errors = 3, time = \"20s\" }",
        "connect = \"http://api.none.example:9000\"\nresolve = true",
    ] {
        assert!(nginx.contains(line), "{line}\n\n{nginx}");
    }
    let source = [
        ":80 {",
        "reverse_proxy /a/* {\ndynamic a api.none.example 9000\nlb_try_duration 5s\nmax_fails 3\nfail_duration 20s",
        "unhealthy_status 5xx\n}",
        "reverse_proxy /b/* {\ndynamic srv {\nservice http\nproto tcp\nname srv.none.example\nrefresh 1m\n}\n}",
        "reverse_proxy /c/* 127.0.0.1:50051 {\ntransport http {\nversions h2c 2\n}\n}",
        "reverse_proxy /d/* https://127.0.0.1:50052 {\ntransport http {\nversions 2\n}\n}",
        "}\n",
    ];
    let caddy = imported(&world, "caddy", &source.join("\n"));
    for line in [
        "connect = \"http://api.none.example:9000\"",
        "resolve = true",
        "outliers = { errors = 3, time = \"20s\" }",
        "[pool.srv-none-example]\nconnect = \"http+srv://_http._tcp.srv.none.example\"",
        "connect = \"h2://127.0.0.1:50051\"",
        "connect = \"https://127.0.0.1:50052\"\nhost = \"server\"",
        "target = \"as_sent\"\ntls = { http2 = true }",
    ] {
        assert!(caddy.contains(line), "{line}\n\n{caddy}");
    }
}

/// A listener of TLS is none of cleartext because its certificates are elsewhere.
#[test]
fn what_has_no_certificate_yet_is_not_answered_in_cleartext() {
    let world = World::new();
    let source = "a.example.com {\n bind 127.0.0.1\n tls /nowhere/a.pem /nowhere/a.key {\n client_auth {\n \
                  trust_pool file /nowhere/clients.pem\n }\n }\n respond secret\n}\nhttp://b.example.com {\n respond open\n}\n";
    let output = imported(&world, "caddy", source);
    assert!(output.contains("open") && !output.contains(":443"), "{output}");
    assert!(!output.contains("secret"), "{output}");
}

#[test]
fn expressions_of_caddy_may_have_several_branches() {
    let world = World::new();
    let output = |expression: &str| {
        let source = format!(":80 {{\n @asked `{expression}`\n respond @asked found\n}}\n");
        imported(&world, "caddy", &source)
    };
    let found = output("{method} == 'PUT' || method('PATCH')");
    assert!(found.contains("methods = [\"PUT\", \"PATCH\"]"), "{found}");
    let found = output("path('/a/*') && !path('*.css') || path('/b')");
    assert!(!found.contains("found") && found.contains("403"), "no table has both: {found}");
    let found = output("path('/a/*') || {scheme} == 'https'");
    assert!(found.contains("match = { any = [{ path = \"/a/*\" }, { scheme = \"https\" }] }"), "{found}");
    let closed = output("(path('/a/*') || path('/b')) && method('GET')");
    assert!(!closed.contains("found") && closed.contains("403"), "{closed}");
}
