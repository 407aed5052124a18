//! Every kind of error as it is shown, every key as it is read, and arbitrary bytes.

mod accounts;
mod acme;
mod arrivals;
mod balancing;
mod cache;
mod client_limits;
mod discovery;
mod errors;
mod external;
mod fastcgi;
mod fields;
mod meaning;
mod modules;
mod overrides;
mod relations;
mod several;
mod tls;
mod unix;

use std::io;
use std::path::{Path, PathBuf};

use super::*;

/// A set with one key.
const KEYS: &[u8] =
    br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// A machine with some accounts, where every directory exists whose name does not contain "missing".
struct Machine {
    root: bool,
    /// Whether there is the account of the package.
    packaged: bool,
}

impl Lookup for Machine {
    fn user(&self, name: &str) -> io::Result<Option<Identity>> {
        let known = |uid| Some(Identity::new(name, uid, uid));
        Ok(match name {
            "www-data" => known(33),
            "app" => known(1001),
            "root" => known(0),
            "maitred" if self.packaged => known(990),
            _ => None,
        })
    }

    fn group(&self, name: &str) -> io::Result<Option<u32>> {
        Ok((name == "www-data").then_some(33))
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        let name = path.to_string_lossy();
        if name.contains("missing") {
            return Err(io::ErrorKind::NotFound.into());
        }
        if name.contains("file") {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(())
    }

    fn program(&self, name: &str, _cwd: &Path) -> bool {
        !name.contains("missing")
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if matches!(name, "users" | "users.htpasswd") {
            return Ok(b"ann:$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.\n".to_vec());
        }
        if name == "keys.json" {
            return Ok(KEYS.to_vec());
        }
        tls::FILES.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_public(&self, path: &Path) -> bool {
        path.ends_with("public-key.pem")
    }

    fn unix_secs(&self) -> u64 {
        tls::NOW
    }
}

fn origin() -> Origin {
    Origin { name: "maitred.toml".into(), base: PathBuf::from("/etc/maitred") }
}

fn read_as(text: &str, root: bool) -> Result<(Config, Vec<Warning>), Errors> {
    read(text, &origin(), &Machine { root, packaged: true })
}

/// The start of a file that is complete, and one line long: what follows has line 2 and up.
const START: &str = "listen = [{ address = \":8080\" }]\n";
/// The same with a site.
const COMPLETE: &str = "listen = [{ address = \":8080\" }]\nsite = [{ root = \"www\" }]\n";

#[track_caller]
fn good(text: &str) -> Config {
    match read_as(text, false) {
        Ok((config, _)) => config,
        Err(errors) => panic!("{errors}"),
    }
}

/// All errors as they are shown.
#[track_caller]
fn errors(text: &str) -> String {
    match read_as(text, false) {
        Ok(_) => panic!("no error in:\n{text}"),
        Err(errors) => errors.to_string(),
    }
}

/// `line:column message | hint` of each error.
#[track_caller]
fn brief(text: &str) -> Vec<String> {
    match read_as(text, false) {
        Ok(_) => panic!("no error in:\n{text}"),
        Err(errors) => errors.0.iter().map(one_line).collect(),
    }
}

fn one_line(problem: &Problem) -> String {
    let hint = problem.hint.as_deref().map(|hint| format!(" | {hint}")).unwrap_or_default();
    format!("{}:{} {}{hint}", problem.place.line, problem.place.column, problem.message)
}
