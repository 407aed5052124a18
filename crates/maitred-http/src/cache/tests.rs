//! Tests of the rules.

mod exchanges;
mod model;
mod script;
mod suite;
