//! The configuration of a module.

use serde::de::DeserializeOwned;

/// What stands in `config` of the module's table, as JSON; `{}` without one.
#[derive(Debug, Clone, Copy)]
pub struct Config<'a>(&'a str);

impl<'a> Config<'a> {
    #[doc(hidden)]
    pub fn of(text: &'a str) -> Config<'a> {
        Config(text)
    }

    /// As JSON.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// As a value.
    ///
    /// # Errors
    /// What is wrong with it: the reason that `maitred check` shows.
    pub fn parse<T: DeserializeOwned>(self) -> Result<T, String> {
        serde_json::from_str(self.0).map_err(|error| format!("`config`: {error}"))
    }
}
