//! A text that is made of the configuration. The smallest module there is.
//!
//! ```toml
//! module = { path = "/usr/local/lib/maitred/libhello.so", config = { greeting = "Hello" } }
//! ```

use maitred_module::{Config, Module, Response, module};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    greeting: String,
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let settings: Settings = config.parse()?;
    let text = format!("{}, world\n", settings.greeting);
    Ok(Module::new().on_request(move |request| request.answer(&Response::text(text.as_bytes()))))
}
