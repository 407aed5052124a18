//! Content codings (RFC 9110 section 8.4) that are made here: which response gets one, and the encoders.
//!
//! All of it is pure: no socket, no clock, no disk. What is dynamic is coded as it comes, by a bounded number of encoders per
//! thread; what lasts is coded once, as a whole, by a helper thread.
//!
//! | file | what |
//! |---|---|
//! | [`rules`] | which responses get a coding, by what their heads say |
//! | [`coder`] | the encoder of one response, and the encoders of a thread |
//! | [`head`] | what a coding changes in the fields of a response |
//! | [`whole`] | something that is there as a whole, coded once |
//! | [`fuzzing`] | what the fuzz target codes |
//! | [`constant`] | what the configuration itself answers with, coded when it is loaded |

pub mod coder;
pub mod constant;
pub mod fuzzing;
pub mod head;
pub mod rules;
pub mod whole;

pub use coder::{Coder, Encoders};
pub use constant::Constant;
pub use rules::{Facts, Rules, Verdict, Wish};
