//! Black-box tests of access control: who gets an answer, over HTTP/1 and HTTP/2.

mod addresses;
mod cors;
mod forward;
mod kept;
mod oauth2_proxy;
mod provider;
mod tokens;
pub(crate) mod users;
