//! Automatic certificates, with the real binary and a real authority.

mod dns;
mod failing;
mod issuing;
mod knot;
mod on_demand;
mod one_line;
mod pebble;
mod renewing;
mod tls;
