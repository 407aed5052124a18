//! The command line: one table of commands and flags, from which come the parser, `--help`, the shell completions and
//! the manual page.

pub mod app;
mod beside;
pub mod cache;
pub mod check;
mod client;
pub mod control;
pub mod exit;
pub mod generated;
pub mod import;
pub mod init;
pub mod load_module;
mod runtime;
pub mod screen;
mod sections;
pub mod signals;
mod terminal;
#[cfg(test)]
mod tests;
pub mod top;
pub mod upgrade_check;
pub mod upstream;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use maitred_base::bounds::THREADS_MAX;
use maitred_config::{AccessFormat, Address, AdminAddress, Config, Failure, listen_address};

/// The configuration file when `-c` is not given.
pub const DEFAULT_CONFIG: &str = "maitred.toml";

/// Web server that serves files itself, and hands dynamic requests to application processes together with the
/// client's connection.
#[derive(Debug, Parser)]
#[command(name = "maitred", version, after_long_help = sections::help(sections::ALL))]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve one directory, without a configuration file
    ///
    /// Prints one line with the address, the threads and the buckets, and then the access log. Stop it with Ctrl-C.
    Serve(Serve),
    /// Serve an application, without a configuration file
    ///
    /// APPLICATION is module:callable or module:factory() (Python: WSGI, ASGI or RSGI), manage.py, package.json, a program of
    /// Node.js (server.js), a program with an adapter for Maitred (./app), or a directory. For development, unless --domain says
    /// otherwise. Run it in the application's directory.
    App(App),
    /// Write a configuration file for what is found in this directory
    ///
    /// Looks for the usual layouts of Python, Node.js, PHP, Ruby, Go, Java and others, of what builds sites, and for files; says
    /// why, and what to do where it cannot. An existing file is not overwritten.
    Init(Init),
    /// Run a configuration file in the foreground
    ///
    /// A service manager can wait for readiness (sd_notify) and pass listening sockets (LISTEN_FDS).
    Run(ConfigFile),
    /// Check a configuration file: bind nothing, start nothing
    ///
    /// Prints every error of the file, each with its line, and what was probably meant. Says ok if `run` would start with it, on
    /// this machine and with this account; only whether another process uses an address is not looked at.
    Check(ConfigFile),
    /// Turn a configuration of nginx, Apache, Caddy or Unit into one of Maitred
    ///
    /// Prints the configuration on standard output, with the origin of each part as a comment, and on standard error a table that
    /// says of each directive what became of it. The output passes `maitred check` on this machine: what is not there (a
    /// directory, a certificate) is written as a comment, to be used when it is there. Exit code: 0 if clients and applications
    /// see the same, or better; 3 if something is worse; 2 if something is not possible; 1 if a file cannot be read.
    Import(Import),
    /// Show what a running server is doing
    Status(Status),
    /// Watch what a running server is doing, in the terminal
    ///
    /// Quit with q. Over a slow line, a longer --interval helps.
    Top(Top),
    /// Make a running server read its configuration again
    ///
    /// A file with an error changes nothing, and is reported here. No request is lost or aborted.
    Reload(Order),
    /// Replace the executable of a running server by the file that is now at its path
    ///
    /// The new executable reads the configuration first; if it cannot, nothing changes, and the reason is reported here. No
    /// request is lost or aborted, and the process id stays.
    Upgrade(Order),
    /// Stop a running server, after it has finished its requests
    ///
    /// Returns when the server has ended, within its `grace`.
    Stop(Server),
    /// Show a pool of application processes, or change what runs in it
    ///
    /// Without an action: show its processes and its problems. `restart` replaces each process by a new one that is ready,
    /// `drain SLOT` lets the process in one slot finish its requests and end, `scale N` keeps N processes until the next
    /// reload. No request is lost or aborted.
    Pool(Pool),
    /// Show the servers of a pool, or change them while the server runs
    ///
    /// Without an action, or with `list`: show them. `add` takes one more, `drain` gives one no new requests, `remove` takes one
    /// out, `weight` gives one another share; `reset` undoes all of that. What was commanded stays over reloads and upgrades. No
    /// request is lost or aborted.
    Upstream(Upstream),
    /// Purge responses that a running server keeps, or show what it keeps for a URL
    ///
    /// `purge` takes URLs, or --prefix, --host, --tag or --all. What was purged is not given any more when this returns; with
    /// --soft it is stale: no client gets it until the application was asked about it. `show` says whether something is kept for
    /// a URL, how old it is and how long it is fresh, or why nothing is.
    Cache(Cache),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff
    Man,
    /// A worker process, started by the master
    #[command(hide = true)]
    Worker,
    /// The check of a new executable, started by the master
    #[command(hide = true)]
    UpgradeCheck {
        /// What the server was started with.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        arguments: Vec<OsString>,
    },
    /// A module, loaded to see whether it can be, for `maitred check`
    #[command(hide = true)]
    LoadModule {
        /// The library, for ps(1)
        path: PathBuf,
    },
    /// The process that gets certificates, started by the master
    #[command(hide = true)]
    AcmeAgent,
    /// The process that fetches keys, started by the master
    #[command(hide = true)]
    KeyAgent,
    /// The process that resolves names, started by the master
    #[command(hide = true)]
    NamesAgent,
    /// The process that checks servers, started by the master
    #[command(hide = true)]
    ChecksAgent,
}

/// `maitred serve`
#[derive(Debug, Args)]
#[command(after_long_help = sections::help(&[sections::SERVE_EXAMPLES]))]
pub struct Serve {
    /// The directory
    pub dir: PathBuf,
    /// Address to listen on; ":8080" is all addresses of IPv4, port 0 lets the kernel choose [default: :8080, with --tls
    /// :8443]
    #[arg(short, long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Use TLS, with a self-signed certificate for this machine's own names that is made at the start
    #[arg(long)]
    pub tls: bool,
    /// Event-loop threads [default: one per usable CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    pub threads: Option<u16>,
    /// Account of the process that serves clients, if root starts it [default: maitred, if that account exists and may list DIR;
    /// otherwise root]
    #[arg(short, long, value_name = "ACCOUNT")]
    pub user: Option<String>,
    /// Format of the access log [default: human on a terminal, combined elsewhere]
    #[arg(long, value_name = "FORM")]
    pub log: Option<LogForm>,
    /// Do not list directories that have no index.html
    #[arg(long)]
    pub no_listing: bool,
    /// Also serve names that start with a dot
    #[arg(long)]
    pub hidden: bool,
}

/// `maitred app`
#[derive(Debug, Args)]
pub struct App {
    /// module:callable, module:factory(), manage.py, package.json, a .js file, a program, or a directory
    #[arg(value_name = "APPLICATION", required_unless_present = "php", conflicts_with = "php")]
    pub application: Option<String>,
    /// Serve a PHP application whose files are in this directory, by php-fpm
    #[arg(long, value_name = "DIR")]
    pub php: Option<PathBuf>,
    /// The socket of php-fpm [default: one in /run/php]
    #[arg(long, value_name = "SOCKET", requires = "php")]
    pub fpm: Option<PathBuf>,
    /// Address to listen on; port 0 lets the kernel choose [default: 127.0.0.1:8080, with --tls 127.0.0.1:8443]
    #[arg(short, long, value_name = "ADDR", value_parser = listen_address, conflicts_with = "domain")]
    pub listen: Option<SocketAddr>,
    /// Use TLS, with a self-signed certificate for this machine's own names that is made at the start
    #[arg(long, conflicts_with_all = ["domain", "print_config"])]
    pub tls: bool,
    /// Serve this name on ports 80 and 443, with an automatic certificate; this agrees to the terms of Let's Encrypt
    #[arg(long, value_name = "NAME")]
    pub domain: Vec<String>,
    /// Processes of the application [default: as many as requests need]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=819))]
    pub workers: Option<u16>,
    /// Account of the worker process and of the application, if root starts the server [default: root; with --domain the account
    /// maitred]
    #[arg(short, long, value_name = "ACCOUNT")]
    pub user: Option<String>,
    /// For development: replace the processes when source files of this directory change
    #[arg(long, conflicts_with_all = ["domain", "print_config"])]
    pub watch: bool,
    /// Show the log of the server, and whole tracebacks of the application
    #[arg(long)]
    pub verbose: bool,
    /// Print the configuration that this stands for, and end
    #[arg(long)]
    pub print_config: bool,
}

/// `maitred init`
#[derive(Debug, Args)]
pub struct Init {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub output: PathBuf,
}

/// Formats of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// Short lines for a terminal
    Human,
    /// Combined Log Format
    Combined,
    /// One JSON object per line
    Json,
    /// No access log
    Off,
}

/// The file of `maitred run` and `maitred check`.
#[derive(Debug, Args)]
pub struct ConfigFile {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// `maitred import`
#[derive(Debug, Args)]
pub struct Import {
    /// The server that the configuration is for
    #[arg(value_name = "SERVER")]
    pub server: Foreign,
    /// The files: whole configurations, or parts such as a file of sites-available; `include` is followed
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Look up included files below this directory instead of /: for a copy of another machine's files
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// A name that `httpd -D NAME` would have, for `<IfDefine NAME>`; NAME=VALUE is a variable, for `${NAME}`
    #[arg(long, value_name = "NAME")]
    pub defined: Vec<String>,
    /// Where php-fpm listens, as `connect` of a pool has it, for scripts that Apache runs itself
    #[arg(long, value_name = "URL", value_parser = php_fpm)]
    pub php_fpm: Option<String>,
    /// Write a page with the whole table, beside both files
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Run nginx and the import side by side on loopback, with an application of the test behind both, and report what differs
    ///
    /// Both get a copy with other ports, paths and certificates; nothing else is started or written. It takes an nginx that is
    /// installed, and maitred-load. docs/compare.md has the rules.
    #[arg(long)]
    pub compare: bool,
}

/// An address of php-fpm.
fn php_fpm(text: &str) -> Result<String, String> {
    let (unix, named) = ("fastcgi+unix:/", text.strip_prefix("fastcgi://"));
    let port =
        named.and_then(|rest| rest.rsplit_once(':')).is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match text.starts_with(unix) || port {
        true => Ok(text.to_owned()),
        false => Err(format!("write {unix}run/php/php-fpm.sock or fastcgi://127.0.0.1:9000")),
    }
}

/// Servers whose configurations can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Foreign {
    /// nginx.conf, or parts of it
    Nginx,
    /// The JSON of NGINX Unit, as `curl --unix-socket SOCKET http://localhost/config` prints it
    Unit,
    /// A Caddyfile
    Caddy,
    /// httpd.conf or apache2.conf of Apache httpd, parts of them, or a .htaccess file
    Apache,
}

/// Selects a running server.
#[derive(Debug, Args)]
pub struct Server {
    /// The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server
    /// that this user has started with `maitred serve`]
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// The server with this admin address: unix:PATH, or a loopback address and port
    #[arg(short, long, value_name = "ADDR", value_parser = AdminAddress::parse)]
    pub admin: Option<AdminAddress>,
    /// The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
}

/// `maitred reload`, `maitred upgrade`
#[derive(Debug, Args)]
pub struct Order {
    /// Do not wait for the result; what is refused within a second is reported all the same
    #[arg(long)]
    pub no_wait: bool,
    /// Which server.
    #[command(flatten)]
    pub server: Server,
}

/// `maitred status`
#[derive(Debug, Args)]
pub struct Status {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// Which server.
    #[command(flatten)]
    pub server: Server,
}

/// `maitred pool`
#[derive(Debug, Args)]
#[command(
    override_usage = "maitred pool [OPTIONS] <NAME> [restart [--canary <N>] | drain <SLOT> | scale <N>]"
)]
pub struct Pool {
    /// The pool, as in the configuration: [pool.NAME]
    #[arg(value_name = "NAME", value_parser = control::pool_name)]
    pub name: String,
    /// What to do
    #[arg(value_name = "ACTION")]
    pub action: Option<PoolAction>,
    /// The slot to drain, from 0 as `maitred pool NAME` counts them; or how many processes to keep
    #[arg(value_name = "NUMBER", required_if_eq_any([("action", "drain"), ("action", "scale")]))]
    pub number: Option<u16>,
    /// With restart: try the new release with this many processes beside the others, and go on or back by itself
    #[arg(long, value_name = "N", conflicts_with = "number")]
    pub canary: Option<u16>,
    /// With restart: do not wait until the processes have been replaced
    #[arg(long)]
    pub no_wait: bool,
    /// Print the pool's part of the status as JSON
    #[arg(long, conflicts_with = "action")]
    pub json: bool,
    /// Which server.
    #[command(flatten)]
    pub server: Server,
}

/// What can be done with a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolAction {
    /// Replace all its processes, each by one that is ready
    Restart,
    /// End one process, after it has finished its requests
    Drain,
    /// Keep this many processes
    Scale,
}

/// `maitred upstream`
#[derive(Debug, Args)]
#[command(
    override_usage = "maitred upstream [OPTIONS] <NAME> [list | add <ADDRESS> | drain <ADDRESS> | remove <ADDRESS> | \
                            weight <ADDRESS> <WEIGHT> | reset]"
)]
pub struct Upstream {
    /// The pool, as in the configuration: [pool.NAME]
    #[arg(value_name = "NAME", value_parser = control::pool_name)]
    pub name: String,
    /// What to do [default: list]
    #[arg(value_name = "ACTION")]
    pub action: Option<UpstreamAction>,
    /// The server: an IP address with a port, or unix:PATH
    #[arg(value_name = "ADDRESS")]
    pub address: Option<Address>,
    /// Its weight, 1 to 1000; for `weight` and `add`
    #[arg(value_name = "WEIGHT")]
    pub weight: Option<u16>,
    /// With `add`: it gets requests only when all others are out
    #[arg(long)]
    pub backup: bool,
    /// Print the servers as JSON
    #[arg(long)]
    pub json: bool,
    /// Which server.
    #[command(flatten)]
    pub server: Server,
}

/// What can be done with the servers of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UpstreamAction {
    /// Show them
    List,
    /// One more
    Add,
    /// No new requests for this one
    Drain,
    /// Take one out
    Remove,
    /// Give one another share of the requests
    Weight,
    /// Undo what was commanded
    Reset,
}

/// `maitred cache`
#[derive(Debug, Args)]
#[command(
    override_usage = "maitred cache [OPTIONS] purge [--soft] <URL>...\n       maitred cache [OPTIONS] purge [--soft] --prefix \
                            <URL> | --host <HOST> | --tag <TAG> | --all\n       maitred cache [OPTIONS] show <URL>"
)]
pub struct Cache {
    /// What to do
    #[arg(value_name = "ACTION")]
    pub action: CacheAction,
    /// Whole URLs, as clients ask for them
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// With `purge`: all that begins with this URL
    #[arg(long, value_name = "URL")]
    pub prefix: Vec<String>,
    /// With `purge`: all of this host, with its port unless that is the scheme's own
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// With `purge`: all that has this tag (Surrogate-Key, Cache-Tag)
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// With `purge`: everything
    #[arg(long)]
    pub all: bool,
    /// With `purge`: leave it as stale instead of removing it
    #[arg(long)]
    pub soft: bool,
    /// With `show`: a field of the request, where responses differ by it: "Accept-Language: de"
    #[arg(long, value_name = "FIELD")]
    pub field: Vec<String>,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// Which server.
    #[command(flatten)]
    pub server: Server,
}

/// What can be done with responses that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheAction {
    /// Remove them, or make them stale
    Purge,
    /// Show what is kept for a URL
    Show,
}

/// `maitred top`
#[derive(Debug, Args)]
pub struct Top {
    /// Print one frame as text and end; standard output need not be a terminal
    #[arg(long)]
    pub once: bool,
    /// Interval between updates, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = top::interval)]
    pub interval: Duration,
    /// Which server.
    #[command(flatten)]
    pub server: Server,
}

impl Serve {
    /// What the flags mean. `terminal` is whether standard output is one.
    pub fn configuration(&self, terminal: bool) -> Result<Config, Failure> {
        let port = if self.tls { 8443 } else { 8080 };
        let listen = self.listen.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, port).into());
        let mut config = Config::for_directory(&self.dir, listen, terminal)?;
        if self.tls {
            config.use_self_signed();
        }
        config.server.threads = self.threads;
        config.serve_as(&self.dir, self.user.as_deref())?;
        if let Some(form) = self.log {
            config.log.access = match form {
                LogForm::Human => AccessFormat::Human,
                LogForm::Combined => AccessFormat::Combined,
                LogForm::Json => AccessFormat::Json,
                LogForm::Off => AccessFormat::Off,
            };
        }
        config.for_all_files(|files| {
            files.listing = !self.no_listing;
            files.hidden = self.hidden;
        });
        Ok(config)
    }
}
