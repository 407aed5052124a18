//! `maitred-load specweb`: the data set, and a run against Maitred with the application of `examples/specweb`.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

use std::path::Path;

use support::maitred::{Maitred, maitred};
use support::*;

/// The example's directory with its data, and its configuration with a free port.
fn example(directory: &Path) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let example = repository.join("examples/specweb");
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::copy(example.join("app.py"), directory.join("app.py")).unwrap();
    let adapter = repository.join("adapters/python");
    let text = std::fs::read_to_string(example.join("maitred.toml")).unwrap();
    let text = text
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("../../adapters/python", adapter.to_str().unwrap())
        .replace("\"data\"", &format!("{:?}", directory.join("data").to_str().unwrap()));
    let admin = format!("[server]\nadmin = \"unix:{}\"\n\n", directory.join("admin.sock").display());
    write(directory, "maitred.toml", (admin + &text).as_bytes())
}

#[test]
fn the_mix_runs_against_the_example() {
    let Some(binary) = maitred() else {
        eprintln!("skipped: no maitred binary beside maitred-load; build the workspace first");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let config = example(directory.path());
    let data = directory.path().join("data");
    let output = program(&["specweb", data.to_str().unwrap(), "--make", "--directories", "3"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("108 files made"), "{text}{}", String::from_utf8_lossy(&output.stderr));

    let server = Maitred::start(&binary, &["run", "-c", &config]);
    let (code, report) = json(&["specweb", "--to", &server.url, "-c", "4", "--directories", "3", "-d", "3s"]);
    assert_eq!(code, 0);
    assert_eq!(report["failures"], 0, "{report}");
    let statuses = report["statuses"].as_array().unwrap();
    assert!(statuses.len() == 1 && statuses[0][0] == 200, "{statuses:?}");
    assert!(report["responses"].as_u64().unwrap() > 10);
    assert_eq!(report["specweb"]["connections"], 4);
    let mean = report["specweb"]["mean_bits_per_second"].as_f64().unwrap();
    assert!((1.0..=400_001.0).contains(&mean), "no connection is faster than its line: {mean}");
    assert!(report["notes"][0].as_str().unwrap().contains("no SPEC metric"));
}

#[test]
fn a_run_needs_a_server_or_a_directory() {
    for arguments in [&["specweb"][..], &["specweb", "d"], &["specweb", "--make"]] {
        let (code, message) = failing(arguments);
        assert_eq!(code, 2, "{message}");
    }
}
