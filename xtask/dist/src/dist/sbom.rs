//! The bill of materials, as CycloneDX in JSON: what is linked, with the sums that Cargo.lock has pinned. Written here, because
//! the tools for it put a random serial number and the time of the machine into it.

use serde_json::json;

use crate::Result;
use crate::dist::components::Component;
use crate::dist::tree::Release;

/// The file's name and content, from what is linked and the text of Cargo.lock.
pub(crate) fn pack(release: &Release, linked: &[Component], lock: &str) -> Result<(String, Vec<u8>)> {
    let lock: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let pinned = lock.get("package").and_then(toml::Value::as_array);
    let sum = |component: &Component| {
        let field = |package: &toml::Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
        let mut packages = pinned.into_iter().flatten();
        let package = packages.find(|package| {
            field(package, "name").as_deref() == Some(&component.name)
                && field(package, "version").as_deref() == Some(&component.version)
        });
        package.and_then(|package| field(package, "checksum"))
    };
    let mut components = Vec::new();
    for component in linked {
        let Component { name, version, license, .. } = component;
        let purl = format!("pkg:cargo/{name}@{version}");
        let hashes: Vec<_> =
            sum(component).into_iter().map(|sum| json!({"alg": "SHA-256", "content": sum})).collect();
        components.push(json!({
            "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": hashes,
            // Cargo's older way to write OR (a slash) is none of SPDX.
            "licenses": [{"expression": license.replace('/', " OR ")}],
        }));
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "maitred", "version": release.version,
            "licenses": [{"expression": "MIT OR Apache-2.0"}]}},
        "components": components,
    });
    Ok((format!("maitred-{}.cdx.json", release.version), serde_json::to_vec_pretty(&document)?))
}
