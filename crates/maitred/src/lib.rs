//! Maitred: a web server that stands in front of an application.
//!
//! The modules follow the way of a request; `ARCHITECTURE.md` draws the map.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | the one table of commands and flags |
//! | [`import`] | configurations of nginx, Unit and Caddy, written as one of Maitred |
//! | [`acme`] | automatic certificates |
//! | [`config`] | TOML text → [`config::Config`], once, with every error of the file |
//! | [`access`] | who may use a site or a route |
//! | [`compress`] | content codings: which responses get one, and the encoders |
//! | [`affinity`] | CPUs: what may be used, which thread is pinned where, and when it is unpinned |
//! | [`control`] | what master and worker process say to each other |
//! | [`master`] | the supervisor: sockets, processes, reload; a pure state machine in a thin shell |
//! | [`pool`] | how many application processes a pool has: a pure function |
//! | [`worker`] | the event loops and the connections |
//! | [`rewrite`] | a request as routes see it; placeholders filled in, targets rewritten |
//! | [`route`] | the one function that chooses what answers a request |
//! | [`modules`] | in-process modules, as they are loaded |
//! | [`plan`] | what happens to the requests of one route, compiled once |
//! | [`filter`] | what is done to responses, route by route |
//! | [`exchange`] | one request and its response, between the protocols of clients and what answers |
//! | [`serve`] | files and fixed replies |
//! | [`handoff`] | requests to application processes, by descriptor |
//! | [`proxy`] | HTTP servers that requests are passed on to: which of them |
//! | [`jwt`] | signed tokens, and the keys that they are checked by |
//! | [`agents`] | what the processes have in common that speak to other servers for the master |
//! | [`names`] | names of servers that are resolved again and again |
//! | [`checks`] | checks of the servers of pools |
//! | [`key_agent`] | keys of tokens that are fetched from a URL |
//! | [`log`] | access log and error log |
//! | [`trace`] | which trace a request belongs to, and what is reported of it |
//! | [`passed`] | descriptors that application processes have passed |
//! | [`passwords`] | users and hashed passwords |
//! | [`pki`] | certificates and keys, read and checked |
//! | [`quic`] | where a datagram of QUIC goes, over all processes of a master |
//! | [`tls`] | from certificates and keys to sessions |
//! | [`upgrade`] | what crosses from one executable to the next |
//! | [`budget`] | bounds on what all requests together take up |
//! | [`overload`] | what is dropped or refused when memory, descriptors or time are short: a pure function |
//! | [`cache`] | responses that are kept: the store |
//! | [`rates`] | how often requests of one client may come: a table that all threads share |
//! | [`residency`] | which parts of a file are in memory |
//! | [`detect`] | what kind of application a directory holds, and the configuration for it |
//! | [`backoff`] | growing delays for processes that keep dying |
//! | [`sandbox`] | what a process may reach in the filesystem |
//! | [`bounds`] | how many threads, pools and slots one server can have |
//! | [`clock`] | the time as one turn of an event loop sees it |
//! | [`unix_time`] | the wall clock |
//! | [`status`] | scoreboard, and the ways to show it |

pub mod access;
pub mod acme;
pub mod affinity;
pub mod agents;
pub mod backoff;
pub mod bounds;
pub mod budget;
pub mod cache;
pub mod checks;
pub mod cli;
pub mod clock;
pub mod compress;
pub mod config;
pub mod control;
pub mod detect;
pub mod exchange;
pub mod filter;
pub mod handoff;
pub mod import;
pub mod jwt;
pub mod key_agent;
pub mod log;
pub mod master;
pub mod modules;
pub mod names;
pub mod overload;
pub mod passed;
pub mod passwords;
pub mod pki;
pub mod plan;
pub mod pool;
pub mod proxy;
pub mod quic;
pub mod rates;
pub mod residency;
pub mod rewrite;
pub mod route;
pub mod sandbox;
pub mod serve;
pub mod status;
pub mod tls;
pub mod trace;
pub mod unix_time;
pub mod upgrade;
pub mod worker;
