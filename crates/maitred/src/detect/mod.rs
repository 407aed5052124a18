//! Applications: what was named on a command line or lies in a directory, and the configuration that serves it.
//!
//! - [`layouts`]: the table of what a directory can hold
//! - [`directory`]: which of them it holds, by its files; nothing of it is run
//! - [`python`], [`node`], [`built`], [`listening`], [`php`], [`executable`]: what each kind of them is started by
//! - [`configuration`]: the TOML for it, which `maitred check` accepts

pub mod built;
pub mod configuration;
pub mod directory;
pub mod executable;
pub mod layouts;
pub mod listening;
pub mod node;
pub mod php;
pub mod place;
pub mod python;

use std::path::PathBuf;

/// What answers requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Processes that the server starts, by this command.
    Command(Vec<String>),
    /// A server that the operator starts: its URL, and the command that starts it.
    Server {
        /// As in `connect` of a pool.
        url: String,
        /// For people to run.
        start: String,
    },
    /// php-fpm, on a socket; it runs scripts below a directory.
    Php {
        /// The directory, relative to that of the configuration.
        root: String,
        /// The socket of php-fpm.
        socket: PathBuf,
    },
    /// Files alone.
    Files(Files),
}

/// Files below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// The directory, relative to that of the configuration.
    pub root: String,
    /// What is tried besides the path itself: `"/index.html"` for a single-page application.
    pub tries: Vec<String>,
}

/// An application, and why it is taken for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The application's name, for people: "Django".
    pub name: &'static str,
    /// What it was found by: "manage.py".
    pub because: String,
    /// How it is served.
    pub kind: Kind,
    /// Directories of files beside it, with the path that they have for clients: `("/static/", "static")`. Files at `"/"` are
    /// looked for first, and what is no file is the application's.
    pub assets: Vec<(String, String)>,
    /// Where its processes are started, if that is not the directory of the configuration.
    pub cwd: Option<String>,
    /// Variables of its processes.
    pub env: Vec<(String, String)>,
    /// Files that have all paths but these, which are the application's: a browser's program beside the application that it
    /// asks.
    pub front: Option<(Files, Vec<String>)>,
    /// What is to be done before it is started, for people to read.
    pub first: Vec<String>,
}

impl Application {
    /// An application without anything beside it.
    pub fn new(name: &'static str, because: impl Into<String>, kind: Kind) -> Application {
        Application {
            name,
            because: because.into(),
            kind,
            assets: Vec::new(),
            cwd: None,
            env: Vec::new(),
            front: None,
            first: Vec::new(),
        }
    }
}

/// Why what a directory holds cannot be served as it is, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What was found: "Vite, because of vite.config.js, is not built: there is no dist".
    pub why: String,
    /// What to do, or to write.
    pub help: String,
}

impl Advice {
    /// Why, and what to do.
    pub fn new(why: impl Into<String>, help: impl Into<String>) -> Advice {
        Advice { why: why.into(), help: help.into() }
    }
}
