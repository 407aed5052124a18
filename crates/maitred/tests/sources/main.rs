//! Tests that read the sources and the documents of the repository, and start no server.
//!
//! | module | what it tests |
//! |---|---|
//! | [`modules`] | the order of the server's modules, over its real imports |
//! | [`tidy`] | the house rules that a program can check |
//! | [`words`] | plain technical English, and retired words |

mod modules;
mod tidy;
mod words;
