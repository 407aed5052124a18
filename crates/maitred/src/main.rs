//! The binary: one command, one exit code. Everything else is in libraries.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use maitred::cli::{self, Arguments, Command, exit};
use maitred_agents::{acme, checks, key_agent, names};
use maitred_base::sandbox;
use maitred_config::{self as config, Loaded};
use maitred_master::shell::{self, Options};
use maitred_worker as worker;

fn main() -> ExitCode {
    // Before anything else, whatever is to be done: most commands read keys, or are given some.
    if let Err(error) = sandbox::hide() {
        eprintln!("error: other processes of this account can read the memory of this one: {error}");
        return ExitCode::FAILURE;
    }
    let terminal = std::io::stdout().is_terminal();
    match Arguments::parse().command {
        Command::Worker => worker::run(),
        Command::UpgradeCheck { arguments } => cli::upgrade_check::run(&arguments),
        Command::LoadModule { .. } => cli::load_module::run(),
        Command::AcmeAgent => acme::agent::run(),
        Command::KeyAgent => key_agent::agent::run(),
        Command::NamesAgent => names::agent::run(),
        Command::ChecksAgent => checks::agent::run(),
        Command::Check(file) => cli::check::run(&file.config),
        Command::Import(arguments) => cli::import::run(&arguments),
        Command::Run(file) => shell::run(&|| config::load(&file.config), Options::default()),
        Command::Serve(serve) => {
            let read =
                || Ok(Loaded { config: serve.configuration(terminal)?, warnings: Vec::new(), text: None });
            let ends_on_hangup = cli::signals::ends_on_hangup();
            shell::run(&read, Options { announce: true, ends_on_hangup, ..Options::default() })
        }
        Command::App(app) if app.print_config => say(app.text().map_err(exit::Error::from)),
        Command::App(app) => cli::app::run(&app),
        Command::Init(init) => say(cli::init::run(&init)),
        Command::Status(which) => say(cli::control::status(&which)),
        Command::Top(top) => say(cli::top::run(&top, terminal)),
        Command::Reload(order) => say(cli::control::reload(&order)),
        Command::Upgrade(order) => say(cli::control::upgrade(&order)),
        Command::Stop(server) => say(cli::control::stop(&server)),
        Command::Pool(pool) => say(cli::control::pool(&pool)),
        Command::Cache(cache) => say(cli::cache::run(&cache)),
        Command::Upstream(upstream) => say(cli::upstream::run(&upstream)),
        Command::Completions { shell } => say(Ok(text(cli::generated::completions(shell)))),
        Command::Man => {
            say(cli::generated::man().map(text).map_err(|error| exit::Error::failed(error, "try again")))
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Prints what a command has to say; a reader that has gone away (`| head`) is no error.
fn say(outcome: Result<String, exit::Error>) -> ExitCode {
    match outcome {
        Ok(text) => {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            let _ = write!(std::io::stdout(), "{text}{end}");
            exit::Exit::Done.into()
        }
        Err(error) => error.report(),
    }
}
