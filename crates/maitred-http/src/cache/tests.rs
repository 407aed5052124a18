//! Tests of the rules.

mod exchanges;
mod model;
mod oracle;
mod script;
mod suite;
