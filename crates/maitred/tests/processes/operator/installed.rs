//! What is installed beside the binary: completions, each in the shell that it is for, and the unit for systemd.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::operator::{repository, text};

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
            crate::support::skip_missing(format_args!("{:?}: {error}", command.get_program()));
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
    // `systemd-analyze` looks whether what is started exists.
    let unit = unit.replace("/usr/bin/maitred", env!("CARGO_BIN_EXE_maitred"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("maitred.service");
    std::fs::write(&path, unit).unwrap();
    (directory, path)
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let (_directory, path) = unit();
    // `systemd-analyze` prints what is wrong, also of what it does not fail for.
    let mut verify = Command::new("systemd-analyze");
    let Some(said) = output_of(verify.arg("--man=no").arg("verify").arg(&path)) else { return };
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("maitred")).collect();
    assert_eq!(about_it, [""; 0], "{said}");
}

/// How much `systemd-analyze security` finds to be desired, from 0 to 10; `None` without it.
fn exposure(unit: &Path) -> Option<f64> {
    let mut rate = Command::new("systemd-analyze");
    let said = output_of(rate.args(["security", "--offline=yes", "--no-pager"]).arg(unit))?;
    let exposure = said.split("Overall exposure level for maitred.service: ").nth(1).unwrap();
    println!("{said}");
    Some(exposure.split_whitespace().next().unwrap().parse().unwrap())
}

/// What is left is that the master is root with five capabilities (1.2), that there is a network (1.1), and what docs/systemd.md
/// says of the rest. Without anything that a web server could do without, and with what breaks applications, it would be 2.2.
const EXPOSURE_MAX: f64 = 2.9;
/// The same where it is not root.
const EXPOSURE_UNPRIVILEGED_MAX: f64 = 1.9;

#[test]
fn the_unit_leaves_little_to_an_attacker_and_lets_compilers_run() {
    let (directory, path) = unit();
    let Some(found) = exposure(&path) else { return };
    assert!(found <= EXPOSURE_MAX, "{found}");
    let conf = std::fs::read_to_string(repository().join("pkg/unprivileged.conf")).unwrap();
    let beside = directory.path().join("maitred.service.d");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("unprivileged.conf"), &conf).unwrap();
    let found = exposure(&path).unwrap();
    assert!(found <= EXPOSURE_UNPRIVILEGED_MAX, "{found}");
    let unit = std::fs::read_to_string(&path).unwrap();
    let is_set = |text: &str, key: &str| text.lines().any(|line| line.starts_with(key));
    let breaking =
        ["MemoryDenyWriteExecute=", "RestrictSUIDSGID=", "ExecStartPre=", "PrivateUsers=", "ProcSubset="];
    assert!(!breaking.iter().any(|key| is_set(&unit, key) || is_set(&conf, key)));
    assert!(!["User=", "ProtectProc=", "UMask="].iter().any(|key| is_set(&unit, key)));
}

/// A service manager gives the master of an unprivileged unit a capability that outlasts execve(2).
#[test]
fn capabilities_of_an_unprivileged_master_are_not_passed_on() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("only root has capabilities to give");
    }
    let dir = crate::operator::site("127.0.0.1:0", "admin = \"unix:admin\"");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let config = dir.path().join("maitred.toml");
    let pool = "[pool.app]\ncommand = [\"sh\", \"-c\", \"grep ^Cap /proc/self/status >seen; mv seen caps\"]\nworkers = 1\n\
                [[site.route]]\npath = \"/app\"\npool = \"app\"\n";
    let text = std::fs::read_to_string(&config).unwrap() + pool;
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+net_bind_service"]);
    command.args(["--ambient-caps=+net_bind_service", env!("CARGO_BIN_EXE_maitred"), "run"]);
    command.current_dir(dir.path()).env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    let _server = crate::operator::Server::start(command);
    let document = crate::operator::status(dir.path());
    let effective =
        |text: &str| text.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap().to_owned();
    let of =
        |key: &str| effective(&std::fs::read_to_string(format!("/proc/{}/status", document[key])).unwrap());
    assert_eq!(of("master_pid"), "0000000000000400");
    assert_eq!(of("pid"), "0000000000000000");
    crate::support::eventually("the application has looked", || dir.path().join("caps").exists());
    assert_eq!(effective(&std::fs::read_to_string(dir.path().join("caps")).unwrap()), "0000000000000000");
}
