//! A reload that takes its time: the command shows what it waits for, and waits as long.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::fs::{CWD, FileType, Mode};

use crate::operator::{Server, TIMEOUT, maitred, site};
use crate::support::eventually;

/// Words to the service manager, one in five seconds: together they take longer than the minute that a silent master has.
const WORDS: usize = 14;

/// What a command has written when it has ended.
fn written(child: &mut Child) -> (bool, String, String) {
    eventually("the command ends", || child.try_wait().unwrap().is_some());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (child.wait().unwrap().success(), out, err)
}

/// Adds a pool whose process cannot go on until a line is written here, and then becomes ready.
fn add_slow_pool(dir: &Path) -> File {
    let gate = dir.join("gate");
    rustix::fs::mknodat(CWD, &gate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let config = dir.join("maitred.toml");
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    let pool = format!(
        "[[site.route]]\npath = \"/app\"\npool = \"slow\"\n[pool.slow]\n\
         command = [\"sh\", \"-c\", \"read line <gate && exec python3 -m maitred app:application\"]\n\
         env = {{ PYTHONPATH = \"{}\" }}\nworkers = 1\nstart_timeout = \"10m\"\n",
        adapter.display()
    );
    std::fs::write(dir.join("app.py"), "def application(environ, start_response):\n    return []\n").unwrap();
    let text = std::fs::read_to_string(&config).unwrap() + &pool;
    std::fs::write(&config, text).unwrap();
    OpenOptions::new().read(true).write(true).open(gate).unwrap()
}

/// The test takes more than a minute, because after that the answer once was that the master had not answered in time.
#[test]
fn a_reload_waits_for_a_pool_as_long_as_that_may_take_and_says_so() {
    let dir = site("127.0.0.1:0", "admin = \"unix:admin\"");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    let heard = || {
        let mut bytes = [0; 1024];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut command = maitred(&["run"]);
    command.current_dir(dir.path()).env("NOTIFY_SOCKET", &path);
    let _server = Server::start(command);
    assert!(heard().starts_with("READY=1\n"));
    let mut gate = add_slow_pool(dir.path());
    let reload = || {
        let mut command = maitred(&["reload"]);
        command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = reload();
    assert!(heard().starts_with("RELOADING=1\n"));
    let mut second = reload();
    let what = "waits for the first process of pool \"slow\", 600s at most (start_timeout)";
    let mut words = 0;
    while words < WORDS {
        let word = heard();
        assert!(word.starts_with("EXTEND_TIMEOUT_USEC=60000000\n"), "{word}");
        // On a busy machine the new worker process is not ready at once.
        words += usize::from(word.contains(&format!("\nSTATUS=reloading: {what}")));
    }
    for child in [&mut first, &mut second] {
        assert_eq!(child.try_wait().unwrap(), None, "it has not waited");
    }
    gate.write_all(b"go\n").unwrap();
    let (well, out, err) = written(&mut first);
    assert!(well && out == "reloaded\n", "{out}{err}");
    assert_eq!(err.lines().filter(|line| *line == what).count(), 1, "{err}");
    let (well, out, err) = written(&mut second);
    assert!(well && out == "reloaded\n", "{out}{err}");
    assert!(err.lines().any(|line| line == format!("waits for the reload before it, which {what}")), "{err}");
}

/// The same of an upgrade, whose master has been replaced meanwhile.
#[test]
fn an_upgrade_is_waited_for_as_well() {
    let dir = site("127.0.0.1:0", "admin = \"unix:admin\"");
    let mut gate = add_slow_pool(dir.path());
    let mut command = maitred(&["run"]);
    command.current_dir(dir.path());
    let _server = Server::start(command);
    let mut stream = UnixStream::connect(dir.path().join("admin")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"POST /upgrade HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    for _ in 0..WORDS {
        assert_eq!(lines.next().unwrap(), "HTTP/1.1 100 Continue");
        let what = lines.next().unwrap();
        assert!(
            what.starts_with("Maitred-Progress: waits for the worker process and the pools of the new"),
            "{what}"
        );
        assert_eq!(lines.next().unwrap(), "");
    }
    // One for the process of each image, and more: that of the old one may have begun again, and take a second one.
    gate.write_all(&b"go\n".repeat(20)).unwrap();
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    assert_eq!(lines.last().unwrap(), "upgraded");
}
