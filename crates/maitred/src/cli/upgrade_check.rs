//! `maitred upgrade-check`: whether this executable can take over from a running server. The server's master runs it.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use super::exit::{Error, Exit};
use super::{Arguments, Command, load_module};
use maitred_base::upgrade;
use maitred_config::{self as config, Failure, Loaded};
use maitred_master::judge::{Addresses, judge};

/// Whether this executable can take over from a server that was started with these arguments: its configuration is read, and
/// nothing is bound or written. Says so on standard output, and what is wrong on standard error.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let loaded = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => configuration(&arguments.command),
        Err(error) => {
            eprintln!("{error}");
            return Exit::Usage.into();
        }
    };
    match loaded {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                eprintln!("{warning}");
            }
            // A module of another version would keep each new worker process from beginning.
            let mut wrong = judge(&loaded.config, Addresses::Leave);
            wrong.extend(load_module::check(&loaded.config).err());
            if !wrong.is_empty() {
                wrong.iter().flat_map(|text| text.lines()).for_each(|line| eprintln!("error: {line}"));
                return Exit::Usage.into();
            }
            println!("{}", upgrade::answer());
            Exit::Done.into()
        }
        Err(failure) => Error::from(failure).report(),
    }
}

fn configuration(command: &Command) -> Result<Loaded, Failure> {
    match command {
        Command::Run(file) => config::load(&file.config),
        Command::Serve(serve) => {
            Ok(Loaded { config: serve.configuration(false)?, warnings: Vec::new(), text: None })
        }
        Command::App(app) => app.configuration(),
        _ => Err(Failure::Refused(
            "only `maitred run`, `maitred serve` and `maitred app` can be upgraded".to_owned(),
        )),
    }
}
