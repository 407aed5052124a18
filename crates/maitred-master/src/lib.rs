//! The master process: owns the listening sockets, starts and supervises the worker process and the application
//! processes, and replaces generations on reload, and its own executable on request.
//!
//! The master never parses HTTP, never reads a client's byte, and never waits for anything but its own events. Everything is
//! decided in [`state`], which has no clock, socket or process inside; [`shell`] carries the decisions out.
//!
//! | module | what it holds |
//! |---|---|
//! | [`state`] | states × events → actions: **start reading here** |
//! | [`shell`] | the loop: waits, hands events to the machine, carries actions out |
//! | [`prepare`] | a configuration with everything open that it needs |
//! | [`judge`] | what a start would refuse, for `maitred check` |
//! | [`surroundings`] | what does not change over the master's life |
//! | [`certificates`] | keys and certificates, read again when their files change |
//! | [`config_file`] | the text of the configuration, and how another one takes its place |
//! | [`sockets`] | listening sockets in their buckets, kept across reloads |
//! | [`datagrams`] | UDP sockets for QUIC |
//! | [`unix_sockets`] | those of Unix, and their files |
//! | [`admin`], [`admin_token`] | the admin listener, and what commands by TCP take |
//! | [`agent`] | the processes that get certificates, fetch keys, resolve names and check servers |
//! | [`checks`] | what there is of the one that checks servers |
//! | [`endpoints`] | the servers of each pool as they are now, with what was commanded |
//! | [`key_files`] | files with keys of tokens and with users, read again when they change |
//! | [`endpoint_files`] | files with servers, read again when they change |
//! | [`source_files`] | files of an application, whose processes are replaced when they change |
//! | [`hook`] | programs that make records in the DNS for it |
//! | [`access_logs`] | what access logs are written to |
//! | [`own_files`] | how logs and other files of its own are opened |
//! | [`pid_file`] | the file with the master's process id |
//! | [`cache_table`] | the index of the cache, kept over worker processes |
//! | [`history`] | the last minutes, for the status, kept over worker processes |
//! | [`modules`] | crashes in modules, and which are turned off |
//! | [`limit_tables`] | the tables of limits by client, kept over worker processes |
//! | [`process`] | how worker and application processes are started |
//! | [`pool_sockets`] | the sockets of pools that accept connections by themselves |
//! | [`cpu_time`] | what processes use of a CPU |
//! | [`upgrade_state`] | what one image of the master leaves to the next |
//! | [`output`] | what application processes write to standard output and error |
//! | [`console`] | what a person is told who started an application by one line |
//! | [`refused`] | which account, file or directory is behind "Permission denied" |
//! | [`spoken`] | times as people say them |
//! | [`channel`] | the control socket of one worker process |

mod access_logs;
pub(crate) mod admin;
pub(crate) mod admin_token;
pub(crate) mod agent;
pub(crate) mod cache_table;
pub(crate) mod certificates;
pub(crate) mod channel;
pub(crate) mod checks;
pub(crate) mod config_file;
mod console;
pub(crate) mod cpu_time;
pub(crate) mod datagrams;
pub(crate) mod endpoint_files;
pub(crate) mod endpoints;
pub(crate) mod history;
pub(crate) mod hook;
pub mod judge;
pub(crate) mod key_files;
pub(crate) mod limit_tables;
mod modules;
pub(crate) mod output;
pub(crate) mod own_files;
pub(crate) mod pid_file;
pub(crate) mod pool_sockets;
pub(crate) mod prepare;
pub(crate) mod process;
mod refused;
pub mod shell;
pub(crate) mod sockets;
pub(crate) mod source_files;
mod spoken;
pub(crate) mod state;
pub(crate) mod surroundings;
pub(crate) mod unix_sockets;
pub(crate) mod upgrade_state;
