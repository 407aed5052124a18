//! The same site over networks that are not as good as loopback: `maitred-udp-proxy` makes them, as a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::clients::{Given, script};
use crate::Result;
use crate::step::{cargo, step};
use crate::test_packages::has_program;

/// Cases of the scripts that are about the way, rather than about what is said.
const AIOQUIC: &[&str] = &["get", "download", "upload", "concurrent", "early_data"];
const GTLSCLIENT: &[&str] = &["files", "upload", "early_data"];
/// The same datagrams are lost each time, as far as the same ones are sent.
const SEED: &str = "3";

/// A network: what it is called, arguments of the proxy, and counts of which none may be zero (paths in its JSON).
struct Network {
    name: &'static str,
    arguments: &'static [&'static str],
    seen: &'static [&'static str],
}

const NETWORKS: [Network; 5] = [
    Network {
        name: "5 ms each way, of a thousand datagrams 3 lost, 5 late, 10 twice",
        arguments: &["--delay", "5ms", "--loss", "3", "--reorder", "5", "--duplicate", "10"],
        seen: &["/to_client/lost", "/to_client/reordered"],
    },
    // QUIC has to get along with 1,200 bytes (9000-14).
    Network {
        name: "datagrams of 1,252 bytes, no ECN",
        arguments: &["--mtu", "1252", "--bleach-ecn", "true"],
        seen: &["/to_client/bleached"],
    },
    Network {
        name: "5 MB/s, 10 ms each way",
        arguments: &["--delay", "10ms", "--rate", "5000000", "--queue", "100000"],
        seen: &["/to_client/sent"],
    },
    Network {
        name: "another port after each 300 datagrams",
        arguments: &["--rebind-every", "300"],
        seen: &["/rebound"],
    },
    // More often, a client that only acknowledges what comes would spend its time with sending the 400 bytes that a challenge
    // takes (9000-8.1).
    Network {
        name: "another address after each 5,000 datagrams",
        arguments: &["--rebind-every", "5000", "--rebind-address"],
        seen: &["/rebound"],
    },
];

/// The proxy's process; it ends with its standard input.
struct Proxy {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    port: String,
}

impl Proxy {
    fn start(program: &Path, arguments: &[&str], port: &str) -> Result<Proxy> {
        let mut command = Command::new(program);
        command.args(["--to", &format!("127.0.0.1:{port}"), "--seed", SEED]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, answers) = pipes.ok_or("the proxy has no pipes")?;
        let mut proxy = Proxy { child, commands, answers: BufReader::new(answers), port: String::new() };
        let said = proxy.line()?;
        let address = said.strip_prefix("listening on ").and_then(|address| address.rsplit_once(':'));
        proxy.port = address.ok_or_else(|| format!("the proxy said {said:?}"))?.1.to_owned();
        Ok(proxy)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Ends the proxy, and returns its counts.
    fn finish(mut self) -> Result<Value> {
        self.commands.write_all(b"counts\n")?;
        let counts = serde_json::from_str(&self.line()?)?;
        drop(self.commands);
        self.child.wait()?;
        Ok(counts)
    }
}

/// `python` has aioquic; without it, there is gtlsclient.
pub(super) fn run(given: &Given, python: Option<&Path>, target: &Path) -> Result<()> {
    let port = given.origin.rsplit_once(':').map(|(_, port)| port).ok_or("an origin without a port")?;
    let build = ["build", "--workspace", "--bin", "maitred-udp-proxy"];
    step("maitred-udp-proxy", cargo().args(build))?;
    let program = target.join("debug/maitred-udp-proxy").canonicalize()?;
    let mut failures = Vec::new();
    for Network { name, arguments, seen } in NETWORKS {
        let proxy = Proxy::start(&program, arguments, port)?;
        let origin = format!("https://localhost:{}", proxy.port);
        let results = [aioquic(given, python, &origin, name), gtlsclient(&origin, name)];
        let counts = proxy.finish()?;
        println!("{name}: {counts}");
        failures.extend(results.into_iter().filter_map(|result| result.err().map(|error| error.to_string())));
        if seen.iter().any(|path| counts.pointer(path).and_then(Value::as_u64).unwrap_or_default() == 0) {
            failures.push(format!("the network was not as bad as it should be: {name}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

fn aioquic(given: &Given, python: Option<&Path>, origin: &str, name: &str) -> Result<()> {
    let Some(python) = python else { return Ok(()) };
    let mut client = script(python, "aioquic_client.py");
    step(&format!("aioquic: {name}"), client.args(["--ca", &given.authority, origin]).args(AIOQUIC))
}

fn gtlsclient(origin: &str, name: &str) -> Result<()> {
    if !has_program("gtlsclient") {
        return Ok(());
    }
    step(&format!("gtlsclient: {name}"), script("python3", "gtlsclient.py").arg(origin).args(GTLSCLIENT))
}
