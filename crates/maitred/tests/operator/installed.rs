//! What is installed beside the binary: completions, each in the shell that it is for, and the unit for systemd.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{repository, text};

/// Where the published completions lie.
fn completion(shell: &str) -> PathBuf {
    repository().join("docs/completions").join(format!("maitred.{shell}"))
}

/// What a program prints; `None`, and the reason, if it is not there.
fn output_of(command: &mut Command) -> Option<String> {
    // Some warn of a locale that is not installed, and some speak another language in one that is.
    match command.env("LC_ALL", "C").stdin(Stdio::null()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
            Some(text(&output))
        }
        Err(error) => {
            crate::skip::skip_missing(format_args!("{:?}: {error}", command.get_program()));
            None
        }
    }
}

/// A shell of its own on a terminal, with the function where zsh looks for it, and the key that completes.
#[test]
fn completions_work_in_zsh() {
    let functions = tempfile::tempdir().unwrap();
    std::fs::copy(completion("zsh"), functions.path().join("_maitred")).unwrap();
    let script = r#"
        zmodload zsh/zpty
        zpty shell "TERM=dumb zsh -f -i"
        zpty -w shell "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u; echo lo''aded"
        zpty -r -m shell line '*loaded*'
        zpty -w -n shell $'maitred rel\t'
        zpty -r -m shell line '*reload *'
        zpty -w -n shell $'\C-umaitred serve --no-l\t'
        zpty -r -m shell line '*--no-listing *'
    "#;
    // What does not come is waited for without end.
    let Some(_) = output_of(Command::new("zsh").arg("-n").arg(completion("zsh"))) else { return };
    let mut shell = Command::new("timeout");
    shell.args(["300", "zsh", "-f", "-e", "-c", script, "zsh"]).arg(functions.path());
    output_of(&mut shell);
}

#[test]
fn completions_work_in_fish() {
    let Some(errors) = output_of(Command::new("fish").arg("--no-execute").arg(completion("fish"))) else {
        return;
    };
    assert_eq!(errors, "");
    let ask = |line: &str| {
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
        output_of(fish.arg(completion("fish")).arg(line)).unwrap()
    };
    let commands = ask("maitred ");
    for name in ["check", "run", "serve", "reload", "stop", "status", "top"] {
        assert!(commands.lines().any(|line| line.starts_with(&format!("{name}\t"))), "{name} in {commands}");
    }
    assert!(ask("maitred serve --no-l").starts_with("--no-listing\t"));
    assert!(ask("maitred serve --log ").lines().any(|line| line.starts_with("json\t")));
}

/// The unit, starting this binary, in a directory of its own.
fn unit() -> (tempfile::TempDir, PathBuf) {
    let unit = std::fs::read_to_string(repository().join("pkg/maitred.service")).unwrap();
    // It is looked whether what is started exists.
    let unit = unit.replace("/usr/bin/maitred", env!("CARGO_BIN_EXE_maitred"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("maitred.service");
    std::fs::write(&path, unit).unwrap();
    (directory, path)
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let (_directory, path) = unit();
    // It prints what is wrong, also of what it does not fail for.
    let mut verify = Command::new("systemd-analyze");
    let Some(said) = output_of(verify.arg("--man=no").arg("verify").arg(&path)) else { return };
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("maitred")).collect();
    assert_eq!(about_it, [""; 0], "{said}");
}

/// What is left is mostly that the master is root, with five capabilities, and that there is a network.
const EXPOSURE_MAX: f64 = 3.1;

#[test]
fn the_unit_leaves_little_to_an_attacker_and_lets_compilers_run() {
    let (_directory, path) = unit();
    let mut rate = Command::new("systemd-analyze");
    let Some(said) = output_of(rate.args(["security", "--offline=yes", "--no-pager"]).arg(&path)) else {
        return;
    };
    let exposure = said.split("Overall exposure level for maitred.service: ").nth(1).unwrap();
    let exposure: f64 = exposure.split_whitespace().next().unwrap().parse().unwrap();
    assert!(exposure <= EXPOSURE_MAX, "{exposure}: {said}");
    let unit = std::fs::read_to_string(&path).unwrap();
    let is_set = |key: &str| unit.lines().any(|line| line.starts_with(key));
    let breaking = ["MemoryDenyWriteExecute=", "RestrictSUIDSGID=", "ProtectProc=", "User=", "ExecStartPre="];
    assert!(!breaking.iter().any(|key| is_set(key)));
}
