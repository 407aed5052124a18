//! `maitred app`: an application that is named on the command line, as the configuration that it stands for.
//!
//! - [`named`]: what the argument names
//! - [`look`]: what it lacks on this machine

mod look;
mod named;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use super::App;
use super::exit::Error;
use super::signals::ends_on_hangup;
use crate::detect::configuration::{Settings, text};
use crate::detect::{Advice, Application};
use maitred_config::{AdminAddress, Failure, Identity, Loaded, load_text};
use maitred_master::shell::{self, Options};

/// Has the adapter for Python show of a traceback what the application has written; `adapters/python/maitred/application.py`.
const SHORT_TRACEBACK: (&str, &str) = ("MAITRED_TRACEBACK", "short");

/// Of the log, what is about the application: how its processes end, and what is wrong with its responses.
const LEVELS: &str = "error,maitred_master=warn,maitred_worker::exchanges=warn";

/// Serves the application, and gives back the exit code.
pub fn run(app: &App) -> ExitCode {
    if let Err(error) = app.look() {
        return error.report();
    }
    if app.is_for_person() {
        // There may be no reader; that is no reason not to serve.
        let _ = writeln!(std::io::stdout(), "starting {}", app.name());
    }
    let options = Options {
        announce: !app.is_for_person(),
        console: app.is_for_person(),
        shows_last_words: app.domain.is_empty(),
        watch: app.watch,
        ends_on_hangup: ends_on_hangup(),
    };
    shell::run(&|| app.configuration(), options)
}

impl App {
    /// The configuration that the command line stands for, in TOML.
    pub fn text(&self) -> Result<String, Failure> {
        let settings = Settings {
            user: self.account()?,
            listen: self.address().to_string(),
            domains: self.domain.clone(),
            workers: self.workers,
            one_line: true,
        };
        Ok(text(&self.application()?, &settings))
    }

    /// What the command line means.
    pub fn configuration(&self) -> Result<Loaded, Failure> {
        if self.user.is_some() && !rustix::process::geteuid().is_root() {
            let why = "--user: only root can change to another account, and this is not root";
            return Err(Failure::Refused(why.to_owned()));
        }
        let mut loaded = load_text(Path::new("(maitred app)"), self.text()?)?;
        loaded.text = None;
        // The warnings are about a text that the user has not written.
        loaded.warnings.clear();
        if self.tls {
            loaded.config.use_self_signed();
        }
        loaded.config.server.admin = AdminAddress::of_user(self.address().port());
        if self.is_for_person() {
            LEVELS.clone_into(&mut loaded.config.log.level);
            for pool in &mut loaded.config.pools {
                let (name, value) = SHORT_TRACEBACK;
                pool.env.push((name.to_owned(), value.to_owned()));
                pool.env.sort();
            }
        }
        Ok(loaded)
    }

    /// Whether a person watches it, who wants to read no log: a server for a domain has one.
    fn is_for_person(&self) -> bool {
        !self.verbose && self.domain.is_empty()
    }

    /// What is missing on this machine: the adapter, or the application's module.
    fn look(&self) -> Result<(), Error> {
        look::look(&self.application().map_err(Error::from)?)
    }

    fn application(&self) -> Result<Application, Failure> {
        let found = match &self.php {
            Some(dir) => named::php(dir, self.fpm.clone()),
            None => named::application(self.application.as_deref().unwrap_or_default(), self.fpm.clone()),
        };
        found.map_err(|Advice { why, help }| Failure::Refused(format!("{why}\n  = help: {help}")))
    }

    /// What the command line calls it.
    fn name(&self) -> String {
        let php = self.php.as_ref().map(|dir| dir.display().to_string());
        self.application.clone().or(php).unwrap_or_default()
    }

    /// The account that the command line names; for a domain, root's processes have one in any case.
    fn account(&self) -> Result<Option<String>, Failure> {
        match &self.user {
            Some(user) => Ok(Some(user.clone())),
            None if self.domain.is_empty() => Ok(None),
            None => Identity::for_production(),
        }
    }

    fn address(&self) -> SocketAddr {
        let port = if self.tls { 8443 } else { 8080 };
        self.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into())
    }
}
