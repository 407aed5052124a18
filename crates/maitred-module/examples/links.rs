//! Short links: the path without `prefix` is looked up in a table, and its value is where the client is sent. What is not in the
//! table passes. The table may have a hundred thousand links and more; a lookup allocates nothing.
//!
//! ```toml
//! path = "/go/*"
//! module = { path = "/usr/local/lib/maitred/liblinks.so", config = { table = "/etc/maitred/links.txt", prefix = "/go/" } }
//! ```
//!
//! A line of the table is a key, blanks, and a target: a path, or an address with `http://` or `https://`. Empty lines and lines
//! that begin with `#` are left out. The file is read when the module begins: reload after a change.
//!
//! ```text
//! docs     https://docs.example.com/
//! release  /download/2026/
//! ```

use std::path::PathBuf;

use maitred_module::{Config, Field, Module, Response, Table, module};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    table: PathBuf,
    prefix: String,
    /// 301, 302, 303, 307 or 308.
    #[serde(default = "found")]
    status: u16,
}

fn found() -> u16 {
    302
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let Settings { table, prefix, status } = config.parse()?;
    if ![301, 302, 303, 307, 308].contains(&status) {
        return Err(format!("`status` is {status}, which is no redirect"));
    }
    let table = Table::open(table, check)?;
    maitred_module::info(&format!("links: {} links", table.count()));
    Ok(Module::new().on_request(move |request| {
        let key = request.path().strip_prefix(prefix.as_bytes());
        match key.and_then(|key| table.get(key)) {
            Some(target) => request.answer(&Response::new(status, &[Field::new("Location", target)], b"")),
            None => request.pass(),
        }
    }))
}

/// Refuses what a client could read as something else than a URL. A wrong line is found here, not by the first client that gets
/// it.
fn check(_: &[u8], target: &[u8]) -> Result<(), String> {
    let begins = [&b"/"[..], b"http://", b"https://"].iter().any(|begin| target.starts_with(begin));
    if !begins {
        return Err("a target begins with `/`, `http://` or `https://`".to_owned());
    }
    match target.iter().find(|byte| !byte.is_ascii_graphic()) {
        Some(byte) => Err(format!("a target has the byte 0x{byte:02x}, which has to be percent-encoded")),
        None => Ok(()),
    }
}
