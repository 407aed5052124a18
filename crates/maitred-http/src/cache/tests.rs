//! Tests of the rules.

mod exchanges;
mod model;
mod oracle;
mod parts;
mod properties;
mod reduced;
mod script;
mod suite;
