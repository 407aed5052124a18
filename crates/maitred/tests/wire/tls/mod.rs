//! TLS from outside: the real binary, and rustls as the client.

mod ciphers;
mod clients;
mod closing;
mod early;
mod files;
mod kernel;
mod keys;
mod memory;
mod names;
mod plain;
mod racing;
mod rates;
mod redirect;
mod serve;
mod sessions;
mod surroundings;
