//! Black-box tests of what clients see: the real binary, and clients whose every byte or frame the test decides.
//!
//! | module | what it tests |
//! |---|---|
//! | [`abuse`] | clients and applications that do what they should not |
//! | [`access`] | access control: who gets an answer |
//! | [`cache`] | the response cache |
//! | [`compress`] | `compress`: clients that accept codings |
//! | [`http`] | HTTP/1, whatever is behind the server |
//! | [`http2`] | HTTP/2 |
//! | [`http3`] | HTTP/3 |
//! | [`limits`] | limits by client: rates, requests at a time, addresses |
//! | [`origin`] | the client's address: fields of proxies, PROXY headers |
//! | [`requests`] | what becomes of a request once a process, or an HTTP server, has it |
//! | [`routes`] | conditions of routes, and what is done with a target before it is answered |
//! | [`status_page`] | the status page and its stream of events |
//! | [`support`] | what all black-box tests share |
//! | [`tls`] | TLS, with rustls as the client |
//! | [`top`] | `maitred top` |
//! | [`unix`] | clients over a Unix socket |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod abuse;
mod access;
mod cache;
mod compress;
mod http;
mod http2;
mod http3;
mod limits;
mod origin;
mod requests;
mod routes;
mod status_page;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod top;
mod unix;
