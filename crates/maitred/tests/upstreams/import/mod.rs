//! `maitred import`: each configuration of `nginx/`, `unit/`, `caddy/` and `apache/` is imported by the real binary, passes
//! `maitred check`, and has what its first lines say:
//!
//! - `# not possible: DIRECTIVE`: the beginning of a directive that is not possible; these are all.
//! - `# worse: DIRECTIVE`: the same of one that differs, and is worse. Without such lines the import is complete: at least 70 %
//!   have to be.
//!
//! `/srv/import` stands for a directory of the test.

mod apache;
mod beside;
mod broken;
mod meanings;
mod oracle;
mod outputs;
mod rows;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A set of public keys for tokens: that of RFC 8037, appendix A.2.
const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// Users for `basic_auth`: ann, whose password is `secret` (crypt(3) with SHA-512, which httpd takes as well).
const USERS: &str = "ann:$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1\n";

/// What a configuration is about.
struct Sample {
    name: String,
    path: PathBuf,
    impossible: Vec<String>,
    worse: Vec<String>,
}

impl Sample {
    /// What the import has to end with.
    fn exit_code(&self) -> i32 {
        match (self.impossible.is_empty(), self.worse.is_empty()) {
            (true, true) => 0,
            (true, false) => 3,
            (false, _) => 2,
        }
    }
}

/// The directory that `/srv/import` stands for, with what the samples name.
struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in [
            "www/own",
            "www/assets",
            "www/docs",
            "www/a",
            "static/sub",
            "media",
            "exports",
            "log",
            "people/ann/public",
        ] {
            std::fs::create_dir_all(root.join("srv").join(name)).unwrap();
        }
        for (name, text) in [
            ("www/index.html", "<h1>index</h1>\n"),
            ("www/about.html", "about\n"),
            ("www/404.html", "not here\n"),
            ("www/style.css", "a{}\n"),
            ("www/a.txt", "text\n"),
            ("www/.hidden", "hidden\n"),
            ("www/docs/index.html", "docs\n"),
            ("www/assets/app.js", "let a;\n"),
            ("static/site.css", "b{}\n"),
            ("keys.json", KEYS),
            ("static/icon.ico", "icon"),
            ("static/sub/x.txt", "x\n"),
            ("media/m.txt", "m\n"),
            ("people/ann/public/page.html", "ann\n"),
            ("users", USERS),
            ("groups", "staff: ann bob\nothers: eve\n"),
        ] {
            std::fs::write(root.join("srv").join(name), text).unwrap();
        }
        World { directory }
    }

    /// A text with the directory in the place of `/srv/import`.
    fn place(&self, text: &str) -> String {
        text.replace("/srv/import", self.directory.path().join("srv").to_str().unwrap())
    }

    /// The directories of sites that have `.htaccess` files, and what a whole server includes.
    fn sites(&self) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import");
        copy(self, &from.join("apache-sites"), &self.directory.path().join("srv/sites"));
        copy(self, &from.join("apache-parts"), &self.directory.path().join("srv/apache-parts"));
    }

    /// The samples of a server, written where their includes are found.
    fn samples(&self, server: &str) -> Vec<Sample> {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import").join(server);
        let to = self.directory.path().join(server);
        copy(self, &from, &to);
        if server == "apache" {
            self.sites();
        }
        let mut samples: Vec<Sample> = std::fs::read_dir(&to)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| {
                let text = std::fs::read_to_string(from.join(path.file_name().unwrap())).unwrap();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let of = |words| expected(&text, words);
                Sample { name, path, impossible: of("not possible: "), worse: of("worse: ") }
            })
            .collect();
        samples.sort_by(|a, b| a.name.cmp(&b.name));
        samples
    }
}

fn copy(world: &World, from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(world, &path, &target),
            false => std::fs::write(&target, world.place(&std::fs::read_to_string(&path).unwrap())).unwrap(),
        }
    }
}

/// What the first lines of a sample say so of; JSON has no comments, and a member of this name instead.
fn expected(text: &str, words: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches(['#', '"']).trim();
        let rest = line.strip_prefix(words)?;
        Some(rest.trim_end_matches([',', '"', ':', ' ']).to_owned())
    });
    lines.collect()
}

fn maitred(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_maitred")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The rows of a table that say so: the directives.
fn said(table: &str, words: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| line.contains(words));
    rows.map(|line| {
        let (_, rest) = line.split_once("  ").unwrap();
        rest.split(words).next().unwrap().trim().to_owned()
    })
    .collect()
}

/// Of how many configurations all is in the output, at least, in percent.
const COMPLETE_PERCENT_MIN: usize = 70;

fn try_all(server: &str, count_min: usize) {
    let world = World::new();
    let mut wrong = Vec::new();
    let samples = world.samples(server);
    for sample in &samples {
        let imported = maitred(&["import", server, sample.path.to_str().unwrap()]);
        let (output, table) = (text(&imported.stdout), text(&imported.stderr));
        if imported.status.code() != Some(sample.exit_code()) {
            wrong.push(format!("{}: exit code {:?}\n{table}", sample.name, imported.status.code()));
        }
        for (words, expected) in
            [("  not possible", &sample.impossible), ("  differs (worse)", &sample.worse)]
        {
            let found = said(&table, words);
            let begins = |row: &String, expected: &String| row.starts_with(expected.as_str());
            let all = found.iter().all(|row| expected.iter().any(|expected| begins(row, expected)));
            let each = expected.iter().all(|expected| found.iter().any(|row| begins(row, expected)));
            if !all || !each {
                let (found, expected) = (found.join("\n  "), expected.join("\n  "));
                wrong.push(format!("{}:{words} is\n  {found}\nand not\n  {expected}", sample.name));
            }
        }
        let file = world.directory.path().join(format!("{}.toml", sample.name));
        std::fs::write(&file, &output).unwrap();
        let checked = maitred(&["check", "-c", file.to_str().unwrap()]);
        let said = text(&checked.stderr);
        // What the other server's machine has is not there: directories of logs and caches.
        let mut errors = said.lines().filter(|line| line.contains("error: ")).peekable();
        let of_this_machine = errors.peek().is_some() && errors.all(|line| line.contains("(os error "));
        if !checked.status.success() && !of_this_machine {
            wrong.push(format!("{}: {said}\n{output}", sample.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), samples.len(), wrong.join("\n\n"));
    let complete = samples.iter().filter(|sample| sample.exit_code() == 0).count();
    assert!(samples.len() >= count_min, "only {} configurations of {server}", samples.len());
    assert!(
        complete * 100 >= samples.len() * COMPLETE_PERCENT_MIN,
        "{complete} of {} are complete",
        samples.len()
    );
}

#[test]
fn configurations_of_nginx_become_configurations_that_pass_the_check() {
    try_all("nginx", 90);
}

#[test]
fn configurations_of_unit_become_configurations_that_pass_the_check() {
    try_all("unit", 8);
}

#[test]
fn caddyfiles_become_configurations_that_pass_the_check() {
    try_all("caddy", 41);
}

#[test]
fn configurations_of_apache_become_configurations_that_pass_the_check() {
    try_all("apache", 40);
}

#[test]
fn exit_codes_tell_complete_incomplete_and_unreadable_apart() {
    let world = World::new();
    let file = |name: &str, text: &str| {
        let path = world.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let code = |path: &str| maitred(&["import", "nginx", path]).status.code();
    assert_eq!(code(&file("whole", "server { listen 80; return 404; }")), Some(0));
    assert_eq!(code(&file("part", "server { listen 80; perl x; return 404; }")), Some(2));
    assert_eq!(code(&file("worse", "server { listen 80; location / { root /; mp4; } }")), Some(3));
    assert_eq!(code(&file("broken", "server {")), Some(1));
    assert_eq!(code("/nowhere/at/all"), Some(1));
    let page = world.directory.path().join("page.html");
    let arguments = ["import", "nginx", &file("part", "server { listen 80; perl <x>; return 404; }")];
    let with_page = maitred(&[&arguments[..], &["--report", page.to_str().unwrap()]].concat());
    assert_eq!(with_page.status.code(), Some(2));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("perl &lt;x&gt;") && page.contains("[[site]]"), "{page}");
    let nowhere = maitred(&[&arguments[..], &["--report", "/nowhere/at/all.html"]].concat());
    assert!(nowhere.status.code() == Some(1) && text(&nowhere.stderr).contains("/nowhere/at/all.html"));
    let broken = maitred(&["import", "nginx", &file("line", "a;\nb {\n")]);
    assert!(text(&broken.stderr).contains("line:2: the block `b` has no end"), "{}", text(&broken.stderr));
}

#[test]
fn includes_are_looked_up_below_the_root_only() {
    let world = World::new();
    let root = world.directory.path().join("copy");
    std::fs::create_dir_all(root.join("etc/nginx/sites-enabled")).unwrap();
    std::fs::write(world.directory.path().join("outside.conf"), "location /outside { return 200; }").unwrap();
    std::os::unix::fs::symlink(world.directory.path().join("outside.conf"), root.join("etc/nginx/link.conf"))
        .unwrap();
    let site = "server { listen 80; server_name a.example.com; include /etc/nginx/snippets/*; location / { return 204; } }";
    std::fs::write(root.join("etc/nginx/sites-enabled/a"), site).unwrap();
    let main =
        "http { include /etc/nginx/sites-enabled/*; include link.conf; include /etc/../../outside.conf; }";
    std::fs::write(root.join("etc/nginx/nginx.conf"), main).unwrap();
    let file = root.join("etc/nginx/nginx.conf");
    let imported = maitred(&["import", "nginx", file.to_str().unwrap(), "--root", root.to_str().unwrap()]);
    let (output, table) = (text(&imported.stdout), text(&imported.stderr));
    assert!(
        output.contains("hosts = [\"a.example.com\"]") && output.contains("/etc/nginx/sites-enabled/a:1"),
        "{output}"
    );
    assert!(!output.contains("outside"), "{output}");
    assert_eq!(table.matches("there is no such file").count(), 2, "{table}");
    assert_eq!(imported.status.code(), Some(2), "{table}");
}

#[test]
fn an_import_is_compared_with_nginx_by_one_command() {
    let beside = Path::new(env!("CARGO_BIN_EXE_maitred")).with_file_name("maitred-load");
    if !["/usr/sbin/nginx", "/usr/local/sbin/nginx"].iter().any(|file| Path::new(file).exists()) {
        return crate::support::skip_missing("no nginx (Debian: nginx-light)");
    }
    if !beside.exists() {
        return crate::support::skip_missing("maitred-load is not built");
    }
    let world = World::new();
    let compared = |text: &str| {
        let file = world.directory.path().join("site.conf");
        std::fs::write(&file, text).unwrap();
        let page = world.directory.path().join("page.html");
        maitred(&["import", "nginx", file.to_str().unwrap(), "--compare", "--report", page.to_str().unwrap()])
    };
    let files = "root /srv/import/www; location / { try_files $uri =404; }";
    let app = "location /api/ { proxy_pass http://127.0.0.1:1; proxy_set_header X-Real-IP $remote_addr; }";
    let php = "location ~ \\.php$ { include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; \
               fastcgi_pass 127.0.0.1:2; }";
    let user =
        "location /admin/ { auth_basic Admin; auth_basic_user_file /srv/import/users; try_files $uri =404; }";
    let same =
        compared(&format!("server {{ listen 80; server_name a.example; {files} {app} {php} {user} }}"));
    let said = text(&same.stderr);
    assert_eq!(same.status.code(), Some(0), "{said}");
    let page = std::fs::read_to_string(world.directory.path().join("page.html")).unwrap();
    assert!(page.contains("What both answer") && page.contains("reached an application"), "{page}");
    assert!(said.contains("requests compared") && said.contains("reached an application"), "{said}");
    let other = app.replace("X-Real-IP $remote_addr", "X-Forwarded-For 192.0.2.1");
    let differs = compared(&format!("server {{ listen 80; {files} {other} }}"));
    let said = text(&differs.stderr);
    assert!(said.contains("application: field x-forwarded-for differs"), "{said}");
    assert_eq!(differs.status.code(), Some(3), "{said}");
    let wrong = maitred(&["import", "unit", "/nowhere", "--compare"]);
    assert!(matches!(wrong.status.code(), Some(1 | 2)), "{}", text(&wrong.stderr));
}
