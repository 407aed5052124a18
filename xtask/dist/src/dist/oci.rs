//! The image for containers, as an archive of the OCI image layout: nothing but the binary, certificates and a configuration.
//! The binary has to be static.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::dist::tree::{Release, Tree, gzip};

/// No account of the image, so that it owns nothing in it.
const USER: &str = "65532:65532";

/// SHA-256 as artefacts write it.
pub(crate) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file's name and content. `root` is the root of the container.
pub(crate) fn pack(release: &Release, root: &Tree) -> Result<(String, Vec<u8>)> {
    let architecture = match release.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => {
            return Err(format!("{other}: the name of this architecture in images is not known here").into());
        }
    };
    let plain = root.tar(release, "")?;
    let mut layout = Tree::default();
    let layer = blob(&mut layout, "application/vnd.oci.image.layer.v1.tar+gzip", gzip(&plain)?);
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": {"8080/tcp": {}},
            "Entrypoint": ["/usr/bin/maitred"],
            "Cmd": ["run", "-c", "/etc/maitred/maitred.toml"],
            "Labels": {
                "org.opencontainers.image.title": "maitred",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
            // Not of OCI: Docker and Podman read it all the same.
            "Healthcheck": {"Test": ["CMD", "/usr/bin/maitred", "status", "-c", "/etc/maitred/maitred.toml"]},
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&plain))]},
    });
    let config = blob(&mut layout, "application/vnd.oci.image.config.v1+json", serde_json::to_vec(&config)?);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
    let mut manifest = blob(&mut layout, kind, serde_json::to_vec(&manifest)?);
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": release.version});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    layout.file("index.json", 0o644, serde_json::to_vec(&index)?);
    layout.file("oci-layout", 0o644, r#"{"imageLayoutVersion":"1.0.0"}"#);
    let name = format!("maitred-{}-{}.oci.tar", release.version, architecture);
    Ok((name, layout.tar(release, "")?))
}

/// Adds content to the layout, and gives back its descriptor.
fn blob(layout: &mut Tree, kind: &str, content: Vec<u8>) -> Value {
    let (sum, size) = (sha256(&content), content.len());
    layout.file(&format!("blobs/sha256/{sum}"), 0o644, content);
    json!({"mediaType": kind, "digest": format!("sha256:{sum}"), "size": size})
}
