use clap::{CommandFactory as _, Parser as _};

use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command)
}

#[test]
fn the_table_of_commands_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn defaults_are_those_that_help_promises() {
    let Ok(Command::Serve(serve)) = parse("maitred serve public") else { panic!() };
    let address = |serve: &Serve| serve.configuration(false).unwrap().listens[0].address.to_string();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(address(&Serve { dir: dir.path().to_owned(), ..serve }), "0.0.0.0:8080");
    let Ok(Command::Serve(serve)) = parse("maitred serve --tls public") else { panic!() };
    assert_eq!(address(&Serve { dir: dir.path().to_owned(), ..serve }), "0.0.0.0:8443");
    let Ok(Command::Run(file)) = parse("maitred run") else { panic!() };
    assert_eq!(file.config, PathBuf::from("maitred.toml"));
    let Ok(Command::Status(status)) = parse("maitred status --json --admin unix:/run/a.sock") else {
        panic!()
    };
    assert!(status.json);
    assert_eq!(status.server.admin, Some(AdminAddress::Unix("/run/a.sock".into())));
    let Ok(Command::Pool(pool)) = parse("maitred pool web scale 4 -c a.toml") else { panic!() };
    assert_eq!((pool.action, pool.number), (Some(PoolAction::Scale), Some(4)));
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for line in [
        "maitred",
        "maitred serve",
        "maitred serve . --listen 8080",
        "maitred serve . --threads 0",
        "maitred serve . --threads 257",
        "maitred status --admin 10.0.0.1:9180",
        "maitred stop -c a.toml --admin unix:/a",
        "maitred frobnicate",
        "maitred pool",
        "maitred pool web scale",
        "maitred pool web drain",
        "maitred pool web frobnicate",
        "maitred pool web/../x restart",
        "maitred pool web restart --json",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
    for line in ["maitred --help", "maitred serve --help", "maitred --version"] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 0, "{line}");
    }
}

#[test]
fn flags_of_serve_change_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let Ok(Command::Serve(serve)) =
        parse(&format!("maitred serve {path} -l 127.0.0.1:0 -t 3 --log json --no-listing --hidden"))
    else {
        panic!()
    };
    let config = serve.configuration(true).unwrap();
    assert_eq!(config.server.threads, Some(3));
    assert_eq!(config.log.access, AccessFormat::Json);
    let files = config.sites[0].files.as_ref().unwrap();
    assert!(!files.listing && files.hidden);
    assert_eq!(config.sites[0].routes[0].target, maitred_config::Target::Files(files.clone()));
}

#[test]
fn help_tells_of_examples_exit_codes_files_and_signals() {
    let help = Arguments::command().render_long_help().to_string();
    for expected in
        ["Examples:", "Exit status:", "Files:", "Signals:", "maitred run -c site/maitred.toml", "SIGHUP"]
    {
        assert!(help.contains(expected), "{expected} in:\n{help}");
    }
    assert!(!help.contains("worker process, started"), "{help}");
}

#[test]
fn the_manual_page_has_every_command_and_no_stray_macro() {
    let page = String::from_utf8(generated::man().unwrap()).unwrap();
    for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(page.contains(&format!(".SS \"maitred {}", command.get_name())), "{page}");
    }
    assert!(page.contains(".SH \"SIGNALS\"") && page.contains(".SH \"EXIT STATUS\""), "{page}");
    for line in page.lines().filter(|line| line.starts_with('.')) {
        let name = line.split(' ').next().unwrap();
        assert!(
            [".SH", ".SS", ".TP", ".PP", ".TH", ".ie", ".el", ".IP", ".RS", ".RE", ".br", ".nf", ".fi"]
                .contains(&name),
            "{line}"
        );
    }
}

#[test]
fn a_check_sums_up_and_its_failure_is_usage() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::for_directory(dir.path(), "127.0.0.1:0".parse().unwrap(), false).unwrap();
    let summary = check::summary(std::path::Path::new("maitred.toml"), &config);
    assert_eq!(summary, "maitred.toml: ok: 1 address, 1 site, 0 pools");
    let error = exit::Error::from(maitred_config::load(&dir.path().join("none.toml")).unwrap_err());
    assert_eq!(error.exit.code(), 2);
    assert!(error.text.starts_with("error: cannot read the configuration file"), "{error}");
}

#[test]
fn completions_leave_out_what_is_not_for_people() {
    for shell in generated::SHELLS {
        let script = String::from_utf8(generated::completions(shell)).unwrap();
        assert!(script.contains("reload") && script.contains("no-listing"), "{script}");
        for hidden in ["\"worker\"", "'worker:", ",worker)", "-agent", "upgrade-check"] {
            assert!(!script.contains(hidden), "{hidden}: {script}");
        }
    }
}

#[test]
fn a_file_that_is_no_configuration_is_called_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let said = |name: &str| {
        let failure = maitred_config::load(&dir.path().join(name)).unwrap_err();
        exit::Error::from(failure).text.replace(&format!("{}/", dir.path().display()), "")
    };
    let cannot = "error: cannot read the configuration file";
    // The pipe never has a writer.
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(
        said("pipe").trim_end(),
        format!("{cannot} pipe: this is a pipe, and no reload could read it again")
    );
    std::fs::write(dir.path().join("latin"), b"[server]\n# caf\xe9\n").unwrap();
    assert_eq!(said("latin").trim_end(), format!("{cannot} latin: line 2 is not UTF-8"));
    std::fs::create_dir(dir.path().join("directory")).unwrap();
    assert!(said("directory").contains("Is a directory") && !said("directory").contains("help"));
    assert!(said("none").contains("= help: name one with `-c FILE`"));
    // What editors of other systems leave behind.
    let text = "\u{feff}[server]\r\nshare_user = true\r\n[[listen]]\r\naddress = \"127.0.0.1:0\"\r\n[[site]]\r\nroot = \".\"\r\n";
    std::fs::write(dir.path().join("windows"), text).unwrap();
    assert!(maitred_config::load(&dir.path().join("windows")).is_ok());
}
