//! A server with a page of many resources, in cleartext and over TLS, for clients that others wrote.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use tempfile::TempDir;

use crate::Result;
use crate::skips::{self, skip};
use crate::step::Beside;

/// Resources of the page: as many as a usual page has.
pub(crate) const RESOURCES: usize = 50;
/// How the authority and the certificate that it signs differ. By openssl's own configuration, both would be authorities, and
/// Firefox takes none as a server.
const EXTENSIONS: &str = "[req]\ndistinguished_name = name\n[name]\n\
    [authority]\nbasicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign\n\
    [server]\nbasicConstraints = critical, CA:FALSE\nextendedKeyUsage = serverAuth\n\
    subjectAltName = DNS:localhost, IP:127.0.0.1\n";
/// After this, something hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of the access log that are shown when a client has failed.
const TOLD_MAX: usize = 20;
/// Room for what the kernel says of changes of a file; what does not fit is read the next time.
const EVENTS_BYTES: usize = 1024;

/// What sites differ in.
pub(crate) struct Kind {
    /// The length of `/large.bin`.
    pub(crate) large_bytes: usize,
    /// What the listener with TLS has besides, in TOML.
    pub(crate) listen: &'static str,
    /// The pool `app`, which answers below `/app/`, in TOML.
    pub(crate) pool: String,
}

/// A site whose server is killed when this is dropped.
pub(crate) struct Site {
    child: Child,
    _described: Beside,
    lines: Receiver<String>,
    directory: TempDir,
    /// `127.0.0.1:PORT`
    pub(crate) cleartext: String,
    /// `localhost:PORT`; none if this server has no TLS.
    pub(crate) tls: Option<String>,
}

impl Site {
    /// Starts `maitred run`, and waits until it listens.
    pub(crate) fn start(maitred: &Path, kind: &Kind) -> Result<Site> {
        let directory = TempDir::new()?;
        // A server that was started as root may run as another account.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open)?;
        fill(&directory.path().join("root"), kind.large_bytes)?;
        let tls = certificate(directory.path())?;
        std::fs::write(directory.path().join("maitred.toml"), configuration(tls, kind))?;
        let mut command = Command::new(maitred);
        command.args(["run", "-c", "maitred.toml"]).current_dir(directory.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = channel();
        for pipe in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(|line| line.ok()) {
                    // The receiver is gone when the test has failed.
                    let _ = sender.send(line);
                }
            });
        }
        let _described = Beside::new("the server", &child);
        let mut site = Site { child, _described, lines, directory, cleartext: String::new(), tls: None };
        site.cleartext = site.address("http://127")?;
        if tls {
            let address = site.address("https://127")?;
            // Certificates are for names; sslyze and browsers ask for one.
            site.tls = address.rsplit_once(':').map(|(_, port)| format!("localhost:{port}"));
        }
        Ok(site)
    }

    /// Scheme, host and port of every way to it.
    pub(crate) fn origins(&self) -> Vec<String> {
        let tls = self.tls.iter().map(|address| format!("https://{address}"));
        std::iter::once(format!("http://{}", self.cleartext)).chain(tls).collect()
    }

    /// The server's process, which takes signals.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file of its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The address of a line that it says at its start.
    fn address(&self, scheme: &str) -> Result<String> {
        let deadline = Instant::now() + TIMEOUT;
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = line.split_whitespace().find(|word| word.starts_with(scheme));
                    if let Some((_, address)) = found.and_then(|word| word.split_once("://")) {
                        return Ok(address.to_owned());
                    }
                    said.push(line);
                }
                Err(_) => return Err(format!("no {scheme} in {said:#?}").into()),
            }
        }
    }

    /// Waits until the access log has so many lines of a kind; it is written when a thread has nothing else to do.
    pub(crate) fn logged(&self, count: usize, kind: impl Fn(&str) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        let log = self.path("access.log");
        let changes = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&changes, &log, inotify::WatchFlags::MODIFY)?;
        loop {
            let text = std::fs::read_to_string(&log)?;
            let found = text.lines().filter(|line| kind(line)).count();
            if found >= count {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("the access log has {found} of {count} lines").into());
            }
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))?;
            if poll(&mut [PollFd::new(&changes, PollFlags::IN)], Some(&left))? > 0 {
                rustix::io::read(&changes, &mut [0; EVENTS_BYTES])?;
            }
        }
    }

    /// Prints what it has said, and the last lines of its access log.
    pub(crate) fn tell(&self) {
        println!("\n== the server said:");
        self.lines.try_iter().for_each(|line| println!("  {line}"));
        let log = std::fs::read_to_string(self.path("access.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        println!("== its access log, the last of {} lines:", lines.len());
        lines.iter().rev().take(TOLD_MAX).rev().for_each(|line| println!("  {line}"));
    }

    /// Ends it, and looks at what it said: nothing here is an error of the server.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        let said: Vec<String> = self.lines.iter().collect();
        let bad = said.iter().any(|line| line.contains("panic") || line.contains(" ERROR "));
        if status.success() && !bad { Ok(()) } else { Err(format!("the server: {status}: {said:#?}").into()) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Without a master its other processes end by themselves.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// The files: a page, half of whose resources are scripts that count themselves, and half pictures.
fn fill(root: &Path, large_bytes: usize) -> Result<()> {
    std::fs::create_dir_all(root)?;
    let half = RESOURCES / 2;
    let scripts: String =
        (0..half).map(|number| format!("<script src=\"{number}.js\"></script>\n")).collect();
    let images: String = (0..half).map(|number| format!("<img src=\"{number}.svg\" alt=\"\">\n")).collect();
    let head =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<link rel=\"icon\" href=\"data:,\">\n<title>fifty</title>\n";
    std::fs::write(root.join("index.html"), format!("{head}{scripts}{images}"))?;
    for number in 0..half {
        let filler = "/* as long as a usual one */\n".repeat(number * 40);
        std::fs::write(
            root.join(format!("{number}.js")),
            format!("window.count = (window.count || 0) + 1;\n{filler}"),
        )?;
        let picture =
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"10\"><circle r=\"5\"/></svg>\n";
        std::fs::write(root.join(format!("{number}.svg")), picture)?;
    }
    std::fs::write(root.join("a.txt"), "file a\n")?;
    let large: Vec<u8> = (0..large_bytes).map(|at| (at ^ at >> 8) as u8).collect();
    std::fs::write(root.join("large.bin"), large)?;
    Ok(())
}

/// A certificate for `localhost` and that of its authority, by openssl; false if there is none.
fn certificate(directory: &Path) -> Result<bool> {
    std::fs::write(directory.join("openssl.cnf"), EXTENSIONS)?;
    let authority =
        ["-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem", "-extensions", "authority"];
    let server =
        ["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "certificate.pem", "-extensions", "server"];
    for (subject, signer) in [(authority, &[][..]), (server, &["-CA", "ca.pem", "-CAkey", "ca-key.pem"])] {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        openssl.args(["-days", "2", "-config", "openssl.cnf"]).args(subject).args(signer);
        match openssl.current_dir(directory).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
            Err(error) => {
                skip(skips::Kind::Missing, "TLS", &format!("openssl: {error} (Debian: openssl)"));
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn configuration(tls: bool, kind: &Kind) -> String {
    let (listen, site) = if tls {
        (
            format!("[[listen]]\naddress = \"127.0.0.1:0\"\n{}\n", kind.listen),
            "certificates = [{ certificate = \"certificate.pem\", key = \"key.pem\" }]\n",
        )
    } else {
        (String::new(), "")
    };
    format!(
        "[server]\nshare_user = true\nthreads = 2\naffinity = \"off\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n{listen}\
         [log]\naccess = \"combined\"\naccess_file = \"access.log\"\n\
         [[site]]\nroot = \"root\"\n{site}\
         [[site.route]]\npath = \"/gone\"\nrespond = {{ status = 410, body = \"gone\\n\" }}\n\
         [[site.route]]\npath = \"/app/*\"\npool = \"app\"\n\
         [pool.app]\n{}\n",
        kind.pool,
    )
}
