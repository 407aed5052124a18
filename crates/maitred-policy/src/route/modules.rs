//! Which modules have to do with a route.

use crate::plan::{ModuleCall, Modules};
use maitred_config::{ModuleSpec, ModuleUse};

/// What a module looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sees {
    /// Requests.
    pub requests: bool,
    /// Bodies of requests.
    pub bodies: bool,
    /// The heads of responses.
    pub responses: bool,
    /// Whether answers may come later.
    pub waits: bool,
}

/// The modules of a site and of one of its routes. `all`: those of the configuration, by their numbers. `answer`: the route has
/// nothing else to answer with.
pub(super) fn of(
    all: &[&ModuleSpec],
    sees: impl Fn(u16) -> Sees,
    (of_site, of_route): (&[ModuleUse], &[ModuleUse]),
    answer: bool,
) -> Modules {
    let uses = || {
        of_site.iter().chain(of_route).filter_map(|used| {
            let number = all.iter().position(|spec| **spec == used.module)? as u16;
            Some((used, number, sees(number)))
        })
    };
    let call = |(used, number, sees): (&ModuleUse, u16, Sees)| {
        let request_fields = used.request_fields.clone();
        sees.requests.then_some(ModuleCall { number, timeout: used.timeout, request_fields })
    };
    let bodies = uses().filter(|(_, _, sees)| answer && sees.bodies).map(|(used, ..)| used.body_bytes_max);
    Modules {
        of_requests: uses().filter_map(call).collect(),
        of_responses: uses().filter(|(_, _, sees)| sees.responses).map(|(_, number, _)| number).collect(),
        body_bytes_max: bodies.min(),
        may_wait: uses().any(|(_, _, sees)| sees.waits),
        answer,
    }
}
