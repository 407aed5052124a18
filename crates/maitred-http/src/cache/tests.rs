//! Tests of the rules.

mod exchanges;
mod model;
mod oracle;
mod parts;
mod properties;
mod script;
mod suite;
