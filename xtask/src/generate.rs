//! `cargo xtask generate`: writes the files that are made from tables in the code. A test fails when one is stale.

use std::path::{Path, PathBuf};

use maitred::cli::generated;
use maitred_config::{reference, schema};

/// Every generated file: its path from the root of the repository, and what has to stand in it.
fn files() -> crate::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut schema = serde_json::to_vec_pretty(&schema::schema())?;
    schema.push(b'\n');
    let mut files = vec![
        ("docs/configuration.md".into(), reference::markdown().into_bytes()),
        ("docs/maitred.schema.json".into(), schema),
        ("docs/maitred.1".into(), generated::man()?),
    ];
    for shell in generated::SHELLS {
        files.push((format!("docs/completions/maitred.{shell}").into(), generated::completions(shell)));
    }
    Ok(files)
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Writes the files that have changed, and names them.
pub(crate) fn run() -> crate::Result<()> {
    for (path, content) in files()? {
        let place = root().join(&path);
        if std::fs::read(&place).is_ok_and(|old| old == content) {
            continue;
        }
        if let Some(dir) = place.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(&place, content)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_fresh() {
        for (path, content) in files().unwrap() {
            let found = std::fs::read(root().join(&path)).unwrap_or_default();
            assert!(found == content, "{} is stale: run `cargo xtask generate`", path.display());
        }
    }
}
