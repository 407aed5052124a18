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
fn an_address_of_both_families_is_listed_once() {
    let world = World::new();
    let output = imported(&world, "nginx", "server { listen 80; listen [::]:80; return 204; }");
    assert!(output.contains("address = \"[::]:80\"") && !output.contains("address = \":80\""), "{output}");
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
fn a_caddyfile_keeps_the_order_of_caddy() {
    let world = World::new();
    let source = ":80 {\n respond \"rest\"\n redir /old /new 301\n handle_path /api/* {\n  reverse_proxy 127.0.0.1:8000\n }\n \
                  handle {\n  root * /srv/import/www\n  try_files {path} /index.html\n  file_server\n }\n}\n";
    let output = imported(&world, "caddy", source);
    let at = |part: &str| output.find(part).unwrap_or_else(|| panic!("{part}\n\n{output}"));
    assert!(at("path = \"/old\"\nredirect = \"/new\"\nstatus = 301") < at("strip_prefix = \"/api/\""));
    assert!(at("strip_prefix = \"/api/\"") < at("try = [\"{path}\", \"/index.html\"]"), "{output}");
}
