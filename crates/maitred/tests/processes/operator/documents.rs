//! Examples in the documents: what is marked as TOML is read by the parser of the configuration, and command lines by the table
//! of commands. The text of the documents is what a reader copies.

use clap::CommandFactory as _;
use maitred::cli::Arguments;

use super::*;

/// A fenced block: where it stands, its info string, and its lines.
struct Block {
    place: String,
    info: String,
    text: String,
}

/// README and the pages of `docs/`, with their names.
fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(repository().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        names.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(repository().join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

fn blocks() -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for (name, text) in pages() {
        let mut open = None;
        for (number, line) in (1..).zip(text.lines()) {
            match (line.trim_start().strip_prefix("```"), open.take()) {
                (Some(info), None) => {
                    let place = format!("{name}:{number}");
                    open = Some(Block { place, info: info.to_owned(), text: String::new() });
                }
                (Some(_), Some(block)) => found.push(block),
                (None, Some(mut block)) => {
                    block.text += line;
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{name}: a block has no end");
    }
    found
}

/// What an example leaves out because its page is not about it: an address, a site (with a
/// certificate for TLS), accounts of processes, a server for each pool that it names. Nothing
/// that it has is changed. CONTRIBUTING.md says so, too.
fn completed(example: &str) -> String {
    let has = |table: &str| {
        example.lines().any(|line| line.trim_end() == table || line.starts_with(&format!("{table} ")))
    };
    let mut whole = String::new();
    if !has("[[site]]") && example.contains("[[site.") {
        whole += "[[site]]\nhosts = [\"example.com\"]\n";
    }
    whole += example;
    if !has("[[listen]]") {
        whole += "\n[[listen]]\naddress = \":8080\"\n";
    }
    if !has("[[site]]") && !example.contains("[[site.") {
        whole += "\n[[site]]\nroot = \"/srv/www\"\n";
        if example.contains("\ntls = ") {
            whole += "certificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n";
        }
    }
    if example.contains("\ncommand = ") && !example.contains("user = ") && !has("[server]") {
        whole += "\n[server]\nshare_user = true\n";
    }
    let named = |line: &str| Some(line.trim_start().strip_prefix("pool = \"")?.split('"').next()?.to_owned());
    let mut pools: Vec<String> = example.lines().filter_map(named).collect();
    pools.sort();
    pools.dedup();
    for pool in pools.iter().filter(|pool| !has(&format!("[pool.{pool}]"))) {
        whole += &format!("\n[pool.{pool}]\nconnect = \"http://127.0.0.1:9000\"\n");
    }
    whole
}

/// The machine of a reader: it has every account, directory and file that a document names.
struct Readers;

impl Lookup for Readers {
    fn user(&self, name: &str) -> std::io::Result<Option<Identity>> {
        Roomy.user(name)
    }

    fn group(&self, name: &str) -> std::io::Result<Option<u32>> {
        Roomy.group(name)
    }

    fn is_root(&self) -> bool {
        Roomy.is_root()
    }

    fn directory(&self, path: &Path) -> std::io::Result<()> {
        Roomy.directory(path)
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("htpasswd") => Ok(b"alice:$apr1$abcdefgh$6gB5Gn0vY1yvJ3NfKpOSm1\n".to_vec()),
            Some("json") => Ok(KEYS.into()),
            _ => Roomy.read(path),
        }
    }

    fn secret(&self, _: &Path) -> std::io::Result<Vec<u8>> {
        Ok(b"secret".to_vec())
    }
}

const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

#[test]
fn every_example_of_a_configuration_is_accepted() {
    let mut seen = 0;
    let mut found = Vec::new();
    for block in blocks().iter().filter(|block| block.info == "toml") {
        seen += 1;
        let origin = Origin { name: block.place.clone(), base: "/".into() };
        if let Err(errors) = config::read(&completed(&block.text), &origin, &Readers) {
            found.push(format!("{}:\n{errors}", block.place));
        }
    }
    assert!(seen > 140, "only {seen} examples found: has their form changed?");
    assert!(found.is_empty(), "{} examples are refused:\n{}", found.len(), found.join("\n"));
}

/// Under `<!-- file: PATH -->` a page quotes a whole file of the repository, so that what is tested is what is read.
#[test]
fn quoted_files_are_as_they_are_quoted() {
    let mut seen = 0;
    for (name, text) in pages() {
        for part in text.split("<!-- file: ").skip(1) {
            let (path, rest) =
                part.split_once(" -->\n```").unwrap_or_else(|| panic!("{name}: no block behind {part}"));
            let quote = rest.split_once('\n').unwrap().1.split("```").next().unwrap();
            let file = std::fs::read_to_string(repository().join(path));
            assert_eq!(
                quote,
                file.unwrap_or_else(|error| panic!("{name}: {path}: {error}")),
                "{name}: {path}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 6, "only {seen} files are quoted: has the form changed?");
}

/// A configuration of what a line of the cookbook says: how the application is connected, and keys of its pool and its route.
fn cooked(how: &str, pool: &str, route: &str) -> String {
    let server = match how {
        "`http://`" => "connect = \"http://127.0.0.1:9000\"",
        "`https://`" => "connect = \"https://127.0.0.1:8443\"",
        "FastCGI" => "connect = \"fastcgi+unix:/run/app.sock\"",
        "handoff (Apache)" => "connect = \"unix:/run/app.sock\"",
        _ if how.starts_with("pool (") => "command = [\"./app\"]\nuser = \"www-data\"",
        _ => panic!("{how}: which kind of pool is that?"),
    };
    let keys = |cell: &str| {
        let spans = cell.split('`').skip(1).step_by(2).filter(|span| span.contains(" = "));
        spans.map(|span| format!("{}\n", span.replace("\\|", "|"))).collect::<String>()
    };
    let (route, before) = route.split_once("before it a route").unwrap_or((route, ""));
    let mut whole = "[[listen]]\naddress = \":8080\"\n[[site]]\n".to_owned();
    if !keys(before).is_empty() {
        whole += &format!("[[site.route]]\npath = \"/before/*\"\n{}", keys(before));
    }
    let path = if keys(route).contains("path = ") { "" } else { "path = \"/*\"\n" };
    let (route, pool) = (keys(route), keys(pool));
    format!("{whole}[[site.route]]\n{path}pool = \"app\"\n{route}[pool.app]\n{server}\n{pool}")
}

#[test]
fn every_line_of_the_cookbook_is_accepted_and_says_where_it_is_from() {
    let text = std::fs::read_to_string(repository().join("docs/cookbook.md")).unwrap();
    let (mut tested, mut read, mut found) = (0, 0, Vec::new());
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split(" |").map(str::trim).collect();
        let [application, how, pool, route, _, source] = cells[..] else { continue };
        if application == "application" {
            continue;
        }
        let origin = Origin { name: application.to_owned(), base: "/".into() };
        if let Err(errors) = config::read(&cooked(how, pool, route), &origin, &Readers) {
            found.push(format!("{application}:\n{errors}"));
        }
        let trials = source.split('`').filter_map(|span| span.strip_prefix("trials/"));
        for trial in trials.clone() {
            assert!(
                repository().join("trials").join(trial).join("app.toml").is_file(),
                "{application}: {trial}"
            );
        }
        let dated = source.contains("20") || source.contains("SWAG") || source == "the same";
        tested += usize::from(trials.count() > 0 || source.contains("also tried"));
        read += usize::from(dated);
    }
    assert!(found.is_empty(), "{} are refused:\n{}", found.len(), found.join("\n"));
    let lines = text.lines().filter(|line| line.starts_with("| ") && line.matches(" |").count() == 6).count();
    assert_eq!(tested + read + 2, lines, "a line without a source, or with two kinds of it");
    assert!(tested >= 50 && read >= 35, "{tested} are tested, {read} are read: has the form changed?");
    let refused = cooked("`http://`", "`target = \"as_it_was\"`", "as it is");
    let origin = Origin { name: "x".into(), base: "/".into() };
    assert!(config::read(&refused, &origin, &Readers).is_err());
}

/// The words of a command line as a shell splits them; `None` where it has something that a shell computes.
fn words(line: &str) -> Option<Vec<String>> {
    let mut found = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(mark), _) if character == mark => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '#') if found.last().is_some_and(String::is_empty) => break,
            (None, '>' | '|' | '<' | ';' | '&') => break,
            (_, '$' | '(') if quote != Some('\'') => return None,
            (None, ' ' | '\t') => found.push(String::new()),
            _ => found.last_mut()?.push(character),
        }
    }
    found.retain(|word| !word.is_empty());
    Some(found)
}

/// The command lines of this program in a block.
fn command_lines(block: &Block) -> Vec<String> {
    let whole = block.text.replace("\\\n", " ").replace("&& ", "\n");
    let begins = ["maitred ", "target/release/maitred ", "cargo run --release -- "];
    let lines = whole.lines().map(|line| line.trim().trim_start_matches("$ "));
    let commands = lines.filter_map(|line| begins.iter().find_map(|begin| line.strip_prefix(begin)));
    commands.map(str::to_owned).collect()
}

#[test]
fn every_command_in_the_documents_is_one() {
    let mut seen = 0;
    let mut found = Vec::new();
    for block in blocks().iter().filter(|block| matches!(block.info.as_str(), "" | "sh" | "console")) {
        for line in command_lines(block) {
            let Some(words) = words(&line) else { continue };
            seen += 1;
            let parsed =
                Arguments::command().try_get_matches_from(["maitred".to_owned()].into_iter().chain(words));
            let wrong = parsed.err().filter(|error| error.exit_code() != 0);
            found.extend(wrong.map(|error| format!("{}: maitred {line}\n{error}", block.place)));
        }
    }
    assert!(seen > 50, "only {seen} commands found: has their form changed?");
    assert!(found.is_empty(), "{} are refused:\n{}", found.len(), found.join("\n"));
}

/// All documents that git knows or would add, with their text; but those which keep what was true at their time.
fn documents() -> Vec<(String, String)> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(repository())
        .output()
        .unwrap();
    let names = String::from_utf8(listing.stdout).unwrap();
    let current = names.lines().filter(|name| !name.starts_with("bench/runs/") && *name != "CHANGELOG.md");
    current
        .filter_map(|name| Some((name.to_owned(), std::fs::read_to_string(repository().join(name)).ok()?)))
        .collect()
}

/// `maitred COMMAND` at the begin of a line of a document has to be a command; `--flag` behind it, one of its flags.
#[test]
fn commands_in_documents_exist() {
    let help = |command: &str| {
        let output = maitred(&[command, "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut found = Vec::new();
    let mut seen = 0;
    for (name, text) in documents() {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start_matches(['$', ' ']);
            let begin = line
                .strip_prefix("maitred ")
                .or_else(|| line.split_once("release -- ").map(|(_, rest)| rest));
            let mut words = begin.unwrap_or_default().split_whitespace();
            let is_command = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
            let Some(command) = words.next().filter(is_command) else { continue };
            seen += 1;
            let text = help(command);
            if text.is_empty() {
                found.push(format!("{name}:{number}: no command {command:?}"));
            }
            for flag in words.take_while(|word| *word != "#").filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap_or(flag);
                if !text.contains(flag) {
                    found.push(format!("{name}:{number}: {command} has no {flag}"));
                }
            }
        }
    }
    assert!(seen > 0, "no document shows a command: has the form changed?");
    assert!(found.is_empty(), "commands in documents:\n  {}", found.join("\n  "));
}

/// README has commands in its text as well.
#[test]
fn commands_in_the_text_of_the_readme_are_commands() {
    let text = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let outside: String = text.split("```").step_by(2).collect();
    let spans = outside.split('`').skip(1).step_by(2).filter(|span| span.starts_with("maitred "));
    let mut seen = 0;
    for line in spans.filter(|span| span.split(' ').count() > 2) {
        seen += 1;
        let parsed = Arguments::command().try_get_matches_from(words(line).unwrap());
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
    assert!(seen > 2, "only {seen} commands found: has their form changed?");
}

/// Beside the tests above: each block is marked, and a mistake in one is found.
#[test]
fn mistakes_in_examples_are_found() {
    let refused = |text: &str| {
        config::read(&completed(text), &Origin { name: "x".into(), base: "/".into() }, &Readers).is_err()
    };
    assert!(!refused("[[site.route]]\npath = \"/*\"\npool = \"a\"\n"));
    assert!(refused("[[site.route]]\npaht = \"/*\"\npool = \"a\"\n"));
    let block = |text: &str| Block { place: String::new(), info: "sh".into(), text: text.into() };
    assert_eq!(
        command_lines(&block("$ maitred top \\\n --once\na && maitred man\n")),
        ["top   --once", "man"]
    );
    assert_eq!(words("a 'b c' --d=\"e\" # f").unwrap(), ["a", "b c", "--d=e"]);
    let is_wrong = |line: &str| {
        let words = ["maitred".to_owned()].into_iter().chain(words(line).unwrap());
        Arguments::command().try_get_matches_from(words).is_err()
    };
    assert!(
        is_wrong("serve . --lisen 127.0.0.1:8080")
            && is_wrong("frobnicate")
            && !is_wrong("serve . --listen 127.0.0.1:8080 > x")
    );
    for block in blocks().iter().filter(|block| block.info.is_empty()) {
        let is_toml =
            block.text.lines().any(|line| matches!(line, "[[listen]]" | "[[site]]" | "[[site.route]]"));
        assert!(!is_toml, "{}: a configuration that is not marked as toml", block.place);
    }
}
