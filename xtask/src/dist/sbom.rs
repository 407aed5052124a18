//! The bill of materials, as CycloneDX in JSON: what Cargo.lock has pinned. Written here, because the tools for it put a random
//! serial number and the time of the machine into it, and Cargo.lock has all that is asked for.

use serde_json::json;

use crate::Result;
use crate::dist::tree::Release;

/// The file's name and content, from the text of Cargo.lock.
pub(crate) fn pack(release: &Release, lock: &str) -> Result<(String, Vec<u8>)> {
    let lock: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let mut components = Vec::new();
    for package in lock.get("package").and_then(toml::Value::as_array).into_iter().flatten() {
        let field = |name: &str| package.get(name).and_then(toml::Value::as_str);
        // Without a source, it is a member of the workspace.
        let (Some(name), Some(version), Some(_)) = (field("name"), field("version"), field("source")) else {
            continue;
        };
        let purl = format!("pkg:cargo/{name}@{version}");
        let hashes: Vec<_> =
            field("checksum").into_iter().map(|sum| json!({"alg": "SHA-256", "content": sum})).collect();
        components.push(json!({
            "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": hashes,
        }));
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "maitred", "version": release.version}},
        "components": components,
    });
    Ok((format!("maitred-{}.cdx.json", release.version), serde_json::to_vec_pretty(&document)?))
}
