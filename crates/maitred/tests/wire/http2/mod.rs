//! Black-box tests of HTTP/2 (RFC 9113, 7541, 9218, 8441): the real binary and a client whose every frame the test decides.

mod applications;
mod attacks;
mod backpressure;
mod bodies;
mod busy;
mod fields;
mod files;
mod headers;
mod lifetime;
mod log;
mod messages;
mod overload;
mod priorities;
mod proxied;
mod rates;
mod scripts;
mod secure;
mod streams;
