//! Black-box tests of the real binary over raw TCP: what a client sees, whatever is behind it. `specs/http.md` says which
//! rule of the RFCs each of them holds.

mod across;
mod admin;
mod bodies;
mod bodies_kept;
mod cancelled;
mod closing;
mod configuration;
mod connect;
mod error_pages;
mod files;
mod full;
mod full_disk;
mod limits;
mod log;
mod messages;
mod methods;
mod persistence;
mod pipelining;
mod pools;
mod pools_failing;
mod rates;
mod reloading;
mod replacing;
mod rotation;
mod routing;
mod several_files;
mod stopping;
mod tower;
mod transports;
mod upgrades;
