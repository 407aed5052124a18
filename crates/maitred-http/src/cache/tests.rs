//! Tests of the rules.

mod exchanges;
mod model;
mod oracle;
mod properties;
mod script;
mod suite;
