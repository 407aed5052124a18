//! Traces: which request of a chain of servers this one belongs to (W3C Trace Context), and what is reported of it
//! (OpenTelemetry).
//!
//! | file | what |
//! |---|---|
//! | [`context`] | `traceparent`: what came with a request, and what goes on with it |
//! | [`span`] | what is reported of a request |
//! | [`exporter`] | the thread that sends it |
//!
//! Nothing of a trace is kept while a request is under way. The trace's own identifiers are made from the id that each request
//! has, and the rest is read again from the request when it has its line in the log.

pub mod context;
pub(crate) mod exporter;
pub(crate) mod span;

pub use context::{Context, Parent};
pub use exporter::{Exporter, SpanFacts};
pub use span::{Answered, Span};
