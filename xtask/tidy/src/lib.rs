//! Tests over the sources and documents of the repository: the package depends on nothing of the server, so that they run within
//! seconds.
//!
//! | test | rules |
//! |---|---|
//! | `style` | the house rules that a program can check |
//! | `words` | plain technical English |
//! | `order` | what may depend on what |
