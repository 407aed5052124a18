//! The policies that decide how many workers there are.

mod httpd;
mod maitred;
mod simple;

use crate::Micros;
use crate::process::View;
use crate::scenario::Scenario;

pub use httpd::{Prefork, Worker2002};
pub use maitred::Core;
pub use simple::{Fixed, Oracle, PhpFpm};

/// What a policy's processes are.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Places in a process.
    pub threads: u32,
    /// Processes that there may be in a bucket, with those that drain.
    pub slots: usize,
    /// Whether a process accepts from its first thread on, as much as it will have threads and as much again.
    pub eager: bool,
    /// Time between two decisions.
    pub interval: Micros,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// Processes to start, as (bucket, how many).
    pub start: Vec<(usize, usize)>,
    /// Processes to drain, as (bucket, slot).
    pub drain: Vec<(usize, usize)>,
}

/// Decides.
pub trait Policy {
    /// A short name, fit for a table.
    fn name(&self) -> &'static str;
    /// What its processes are.
    fn layout(&self) -> Layout;
    /// What to do now.
    fn decide(&mut self, view: &View<'_>) -> Orders;
    /// A process died by itself.
    fn died(&mut self, _now: Micros, _bucket: usize, _lived: Micros, _was_ready: bool) {}
}

/// All policies that a scenario is simulated with.
pub fn all(scenario: &Scenario) -> Vec<Box<dyn Policy>> {
    let mut policies: Vec<Box<dyn Policy>> = vec![Box::new(Core::new(scenario))];
    if scenario.limits.threads > 1 {
        policies.push(Box::new(Worker2002::new(scenario)));
    }
    policies.push(Box::new(Prefork::new(scenario)));
    policies.push(Box::new(PhpFpm::new(scenario)));
    policies.push(Box::new(Fixed::new(scenario)));
    policies.push(Box::new(Oracle::new(scenario)));
    policies
}
