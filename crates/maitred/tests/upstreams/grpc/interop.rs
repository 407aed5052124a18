//! The interop cases of the gRPC project (its document "Interop Test Case Descriptions"), with grpc-go on both sides.
//! `MAITRED_GRPC_INTEROP` names the directory that has its `client` and `server`; without it nothing is tested here.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::PKCS_ECDSA_P256_SHA256;

use crate::support::stage::Authority;
use crate::support::{Server, Setup, skip_missing};

/// All that need no account at a service.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];

pub(crate) fn programs() -> Option<PathBuf> {
    let found = std::env::var_os("MAITRED_GRPC_INTEROP").map(PathBuf::from);
    if found.is_none() {
        skip_missing(
            "MAITRED_GRPC_INTEROP is not set; `cargo xtask test` installs grpc-go's programs and sets it",
        );
    }
    found
}

/// The server, until it is dropped.
pub(crate) struct Far {
    child: Child,
    port: u16,
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Far {
    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn start(programs: &Path, arguments: &[String]) -> Far {
        let mut command = Command::new(programs.join("server"));
        command.args(["-port", "0"]).args(arguments).env("GRPC_GO_LOG_SEVERITY_LEVEL", "info");
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (mut said, mut port) = (BufReader::new(child.stderr.take().unwrap()), None);
        let mut line = String::new();
        while port.is_none() {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the server has ended");
            let place = line.split("interop server listening on ").nth(1);
            port = place.and_then(|place| place.trim().rsplit(':').next()?.parse().ok());
        }
        // The program must not find its standard error closed.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Far { child, port: port.unwrap() }
    }
}

/// Runs a case, and says what the client said if it has failed.
fn run(programs: &Path, case: &str, at: SocketAddr, further: &[String]) -> Option<String> {
    let mut command = Command::new(programs.join("client"));
    command.args(["-server_host", "127.0.0.1", "-server_port", &at.port().to_string(), "-test_case", case]);
    let output = command.args(further).stdin(Stdio::null()).output().unwrap();
    (!output.status.success()).then(|| format!("{case}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn run_all(programs: &Path, server: &Server, at: SocketAddr, further: &[String]) {
    let failed: Vec<_> = CASES.iter().filter_map(|case| run(programs, case, at, further)).collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(server.total("upstream_failures"), 0);
}

#[test]
fn the_interop_cases_pass_in_clear_text() {
    let Some(programs) = programs() else { return };
    let far = Far::start(&programs, &[]);
    let server = Setup::new()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"h2://127.0.0.1:{}\"\n", far.port))
        .start();
    run_all(&programs, &server, server.address, &[]);
    server.stop();
}

/// HTTP/2 is chosen by ALPN on both sides.
#[test]
fn the_interop_cases_pass_over_tls() {
    let Some(programs) = programs() else { return };
    let authority = Authority::new();
    let made = authority.sign(&["inner.example", "localhost"], &PKCS_ECDSA_P256_SHA256);
    let setup = Setup::new()
        .outside("ca.pem", authority.pem.as_bytes())
        .outside("certificate.pem", made.certificate.as_bytes())
        .outside("key.pem", made.key.as_bytes());
    let path = |name: &str| setup.directory.path().join(name).to_string_lossy().into_owned();
    let key = ["-use_tls", "-tls_cert_file", &path("certificate.pem"), "-tls_key_file", &path("key.pem")];
    let far = Far::start(&programs, &key.map(str::to_owned));
    let trust =
        ["-use_tls", "-use_test_ca", "-ca_file", &path("ca.pem"), "-server_host_override", "localhost"];
    let trust = trust.map(str::to_owned);
    let server = setup
        .site("certificates = [{ certificate = \"certificate.pem\", key = \"key.pem\" }]")
        .route("/*", "pool = \"app\"")
        .table("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = {}\n")
        .table(&format!(
            "[pool.app]\nconnect = \"https://127.0.0.1:{}\"\n\
             tls = {{ http2 = true, ca = \"ca.pem\", server_name = \"inner.example\" }}\n",
            far.port
        ))
        .start();
    let at = server.address_of("https");
    run_all(&programs, &server, at, &trust);
    server.stop();
}
