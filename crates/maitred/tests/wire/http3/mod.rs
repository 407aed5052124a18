//! Black-box tests of HTTP/3: the real binary, and a client of which the test decides every step.

mod addresses;
mod lifetime;
mod limits;
mod networks;
mod pools;
mod proxied;
mod reloads;
mod sites;
