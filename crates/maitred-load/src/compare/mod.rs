//! Two servers, the same requests, and the differences between what they answer and what their applications receive.
//!
//! A [`Source`] gives [`Case`]s. [`run`] sends each request to the left server, then to the right one, and compares the
//! statuses, the fields by the tables of [`rules`], the content without its codings, and what [`Echo`] servers behind both have
//! received. Differences are grouped by kind; an [`Allowance`] accepts those that are meant.
//!
//! # Bounds
//!
//! | what | bound |
//! |---|---|
//! | requests | [`Options::requests_max`], at [`Options::rate`] |
//! | time of a request, with its connection | [`Options::timeout`] |
//! | time of the run | [`Options::duration_max`]; it also ends when a side is silent several times in a row |
//! | a head, a body, its framing, its decoded form | 64 KiB, [`Options::body_bytes_max`], twice that and 1 MiB, the same |
//! | connections | 32 of each thread |
//! | kinds, and paths of a kind | 1000, 5 |

pub mod allow;
mod client;
mod decode;
mod difference;
mod echo;
mod fields;
mod html;
mod judge;
mod options;
mod report;
mod request;
pub mod rules;
mod run;
pub mod source;
mod text;
mod uri;

pub use allow::Allowance;
pub use client::{Failure, Response};
pub use difference::Difference;
pub use echo::{Echo, Received};
pub use html::page;
pub use options::Options;
pub use report::{Example, Group, Report};
pub use request::{Case, FollowUp, Port, Request, TOKEN};
pub use run::run;
pub use source::{Gathered, Source};
pub use text::text;
