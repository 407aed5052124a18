//! Exit codes, decided here and nowhere else.

use std::fmt;
use std::process::ExitCode;

use maitred_config::Failure;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: all went well.
    Done,
    /// 1: it could not be done.
    Failed,
    /// 2: the command line or the configuration is wrong.
    Usage,
    /// 3: it was done, and something of the result is worse than before.
    Worse,
}

impl Exit {
    /// For wait(2).
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Worse => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a command ended badly, for the person who gave it.
#[derive(Debug)]
pub struct Error {
    /// The text for standard error, without a newline at its end.
    pub text: String,
    /// The exit code.
    pub exit: Exit,
}

impl Error {
    /// An error for what could not be done; `help` says what to do about it.
    pub fn failed(message: impl fmt::Display, help: impl fmt::Display) -> Error {
        Error { text: format!("error: {message}\n  = help: {help}"), exit: Exit::Failed }
    }

    /// The command line is wrong; `help` says what to do about it.
    pub fn usage(message: impl fmt::Display, help: impl fmt::Display) -> Error {
        Error { text: format!("error: {message}\n  = help: {help}"), exit: Exit::Usage }
    }

    /// Says it on standard error, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        maitred_log::error::say(&self.text);
        self.exit.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<Failure> for Error {
    /// A configuration that is wrong, or is not there, is the operator's to change.
    fn from(failure: Failure) -> Error {
        Error { text: failure.to_string().trim_end().to_owned(), exit: Exit::Usage }
    }
}
