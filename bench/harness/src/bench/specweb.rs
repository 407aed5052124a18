//! The workload in the manner of SPECweb99, on each server of `examples/specweb`. The workload is not SPECweb99 and gives no
//! SPEC metric.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::grid::{self, Cell, Grid, Way};
use super::peers::{Kind, installed};
use super::replay::{load, maitred_load};
use super::server::{Running, Setup, Started, free_address};
use super::{Bench, Result};

/// Simultaneous connections; the data set grows with them (461 MB here, of which 13 MB take room).
const CONNECTIONS: u32 = 100;
/// The shortest round: clients are slow, so it takes its time until each has made some requests.
const SECONDS_MIN: u32 = 10;
/// How long a program that runs beside a server may take to make its socket.
const START: Duration = Duration::from_secs(30);
/// A file of the data set, to see whether a server answers.
const READY: &str = "/file_set/dir00000/class0_0";

/// Starts one of the servers; the path is that of the data set.
type Start = fn(&Bench, &Path) -> Result<Running>;

const COLUMNS: [(&str, Start); 6] = [
    ("maitred, Python", |bench, data| maitred(bench, data, "maitred.toml")),
    ("maitred, Rust", maitred_with_rust),
    ("maitred, Apache with PHP", maitred_with_apache),
    ("Apache with PHP", apache),
    ("nginx, FastCGI with PHP", nginx_with_php),
    (BASE, nginx_with_gunicorn),
];

/// What stands behind nginx commonly.
const BASE: &str = "nginx, Python (gunicorn)";

/// All of them under the same load.
pub(super) fn run(bench: &Bench) -> Result<Grid> {
    let data = bench.work.join("specweb");
    let connections = CONNECTIONS.to_string();
    maitred_load(bench, &["specweb", &data.to_string_lossy(), "--make", "--connections", &connections])?;
    fs::write(data.join("1k.txt"), [b'x'; 1024])?;
    // Apache and nginx work as another account.
    fs::write(data.join("post.log"), b"")?;
    fs::set_permissions(data.join("post.log"), fs::Permissions::from_mode(0o666))?;
    let ways =
        COLUMNS.map(|(_, start)| Way { server: start(bench, &data), path: String::new(), body_bytes: 0 });
    let label = |(way, (label, _)): (&Way, &(&'static str, Start))| {
        way.server.as_ref().ok().map(|server| (server.name.clone(), *label))
    };
    let labels: BTreeMap<String, &str> = ways.iter().zip(&COLUMNS).filter_map(label).collect();
    let seconds = bench.seconds.max(SECONDS_MIN);
    // The share that conforms, of the last round of each.
    let conforming = RefCell::new(Vec::new());
    let row =
        grid::measure_with(bench, &format!("{connections} connections"), None, ways.into(), &|server, _| {
            let duration = format!("{seconds}s");
            let (round, said) =
                load(bench, server, &["specweb", "--connections", &connections, "--duration", &duration])?;
            if let Some(found) = said.specweb {
                let mut all = conforming.borrow_mut();
                let label = labels.get(&server.name).unwrap_or(&"");
                all.push(format!("{label}: {} of {}", found.conforming, found.connections));
            }
            Ok(round)
        });
    let measured = row.cells.iter().filter(|cell| matches!(cell, Cell::Measured(_))).count();
    let all = conforming.into_inner();
    let last = all.get(all.len().saturating_sub(measured)..).unwrap_or_default().join("; ");
    let what = format!(
        "The workload of `maitred-load specweb`: 70 % files, 30 % an application that is the same everywhere, clients of \
         400 kbit/s, rounds of {seconds} s; not SPECweb99, and no SPEC metric. Connections that got 320 kbit/s in the last \
         round: {last}"
    );
    let columns = COLUMNS.map(|(name, _)| name.to_owned()).to_vec();
    let [name, corner, base] = ["specweb", "load", BASE].map(str::to_owned);
    Ok(Grid { name, what, corner, base, columns, rows: vec![row] })
}

/// A copy of the example for one server: its port, absolute paths, and the data set.
fn copy(bench: &Bench, data: &Path, name: &str, port: u16) -> Result<PathBuf> {
    let directory = bench.work.join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    std::os::unix::fs::symlink(data, directory.join("data"))?;
    let built = bench.maitred.parent().unwrap_or(&bench.target);
    for entry in fs::read_dir(bench.repository().join("examples/specweb"))? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let (true, Some(name)) = (matches!(ending, "py" | "php" | "toml" | "conf"), path.file_name()) else {
            continue;
        };
        let log =
            format!("\n[log]\naccess = \"combined\"\naccess_file = \"{}/access.log\"\n", directory.display());
        let text = fs::read_to_string(&path)?
            .replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
            .replace("../../target/release", &built.display().to_string())
            .replace("../../adapters", &bench.repository().join("adapters").display().to_string())
            // The scratch directory may be root's.
            .replace("user www-data;", "user root;");
        fs::write(directory.join(name), if ending == "toml" { text + &log } else { text })?;
    }
    Ok(directory)
}

fn setup(bench: &Bench, directory: &Path) -> Setup {
    let environment = vec![("SPECWEB".to_owned(), directory.display().to_string())];
    Setup { environment, ready: READY.to_owned(), ..bench.setup(Vec::new()) }
}

fn words(program: &str, arguments: &[&str]) -> Vec<String> {
    [program].iter().chain(arguments).map(|&word| word.to_owned()).collect()
}

fn maitred(bench: &Bench, data: &Path, config: &str) -> Result<Running> {
    if !bench.maitred.exists() {
        return Err(format!("no {}: cargo build --profile dist -p maitred", bench.maitred.display()).into());
    }
    let address = free_address()?;
    let name = format!("specweb-{}", config.trim_end_matches(".toml"));
    let directory = copy(bench, data, &name, address.port())?;
    start_maitred(bench, &directory, &name, config, address)
}

fn start_maitred(
    bench: &Bench,
    directory: &Path,
    name: &str,
    config: &str,
    address: std::net::SocketAddr,
) -> Result<Running> {
    let config = directory.join(config).display().to_string();
    let command = words(&bench.maitred.display().to_string(), &["run", "-c", &config]);
    Running::start_program(name, &command, address, &setup(bench, directory), directory)
}

fn maitred_with_rust(bench: &Bench, data: &Path) -> Result<Running> {
    if !bench.maitred.with_file_name("examples").join("specweb").exists() {
        return Err("no example: cargo build --profile dist -p maitred-handoff --example specweb".into());
    }
    maitred(bench, data, "maitred-rust.toml")
}

/// Whether Apache can run here, with PHP.
fn check_apache() -> Result<()> {
    let has_php = ["8.2", "8.4"]
        .iter()
        .any(|version| Path::new(&format!("/usr/lib/apache2/modules/libphp{version}.so")).exists());
    if installed("apache2") && has_php {
        return Ok(());
    }
    Err("no Apache with PHP: apt-get install apache2-bin libapache2-mod-php".into())
}

/// In a session of its own: httpd passes the signal that ends it to its whole process group.
fn apache_command(directory: &Path, more: &[&str]) -> Vec<String> {
    let place = directory.display().to_string();
    let first = ["apache2", "-d", &place, "-f", "apache.conf", "-D", "FOREGROUND"];
    words("setsid", &[&first[..], more].concat())
}

fn apache(bench: &Bench, data: &Path) -> Result<Running> {
    check_apache()?;
    let (name, address) = ("specweb-apache", free_address()?);
    let directory = copy(bench, data, name, address.port())?;
    Running::start_program(
        name,
        &apache_command(&directory, &[]),
        address,
        &setup(bench, &directory),
        &directory,
    )
}

fn maitred_with_apache(bench: &Bench, data: &Path) -> Result<Running> {
    check_apache()?;
    let built =
        Command::new("make").args(["-s", "-C"]).arg(bench.repository().join("adapters/apache")).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("mod_maitred cannot be built: apt-get install apache2-dev make".into());
    }
    let (name, address) = ("specweb-maitred-php", free_address()?);
    let directory = copy(bench, data, name, address.port())?;
    let apache = beside(bench, &directory, &apache_command(&directory, &["-D", "MAITRED"]), "apache.sock")?;
    Ok(start_maitred(bench, &directory, name, "maitred-php.toml", address)?.with(vec![apache]))
}

fn nginx_with_php(bench: &Bench, data: &Path) -> Result<Running> {
    if let Some(why) = Kind::Nginx.absent(&bench.setup(Vec::new())) {
        return Err(why.into());
    }
    if !installed("php-cgi") {
        return Err("no php-cgi: apt-get install php-cgi".into());
    }
    let (name, address) = ("specweb-nginx", free_address()?);
    let directory = copy(bench, data, name, address.port())?;
    let socket = directory.join("php.sock").display().to_string();
    // As httpd does, it passes the signal that ends it to its group.
    let php = beside(bench, &directory, &words("setsid", &["php-cgi", "-b", &socket]), "php.sock")?;
    let place = directory.display().to_string();
    let command = words("nginx", &["-p", &place, "-c", "nginx.conf"]);
    let setup = setup(bench, &directory);
    Ok(Running::start_program(name, &command, address, &setup, &directory)?.with(vec![php]))
}

/// The application in gunicorn, which is what stands behind nginx commonly.
fn nginx_with_gunicorn(bench: &Bench, data: &Path) -> Result<Running> {
    let python = bench.target.join("python/bin/python3");
    if !python.exists() {
        return Err("no gunicorn: `cargo xtask test` installs it below target/".into());
    }
    let address = free_address()?;
    let bind = address.to_string();
    let arguments =
        ["-m", "gunicorn", "--workers", "2", "--threads", "4", "--keep-alive", "60", "--bind", &bind];
    let command = words(&python.display().to_string(), &[&arguments[..], &["app:application"]].concat());
    let application = bench.repository().join("examples/specweb");
    let mut setup = Setup { root: data.to_owned(), mixed_sizes: true, ..bench.setup(Vec::new()) };
    setup.environment = vec![("SPECWEB_ROOT".to_owned(), data.display().to_string())];
    setup.ready = format!("/get?{READY}");
    let gunicorn = Running::start_program("gunicorn-specweb", &command, address, &setup, &application)?;
    setup.backend = address;
    setup.backend_path = "/".to_owned();
    setup.ready = READY.to_owned();
    Ok(Running::start_as(Kind::Nginx, "nginx-specweb", &setup)?.before(gunicorn))
}

/// A program beside a server, once it has made its socket.
fn beside(bench: &Bench, directory: &Path, command: &[String], socket: &str) -> Result<Started> {
    let log = directory.join("beside.log");
    let started = Started::spawn(command, &bench.server_cpus, &log, |command| {
        command.current_dir(directory).env("SPECWEB", directory);
        command.envs([("PHP_FCGI_CHILDREN", "8"), ("PHP_FCGI_MAX_REQUESTS", "0")]);
    })?;
    let deadline = Instant::now() + START;
    while !directory.join(socket).exists() {
        if Instant::now() > deadline {
            return Err(format!("{command:?} makes no socket: {}", fs::read_to_string(log)?).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(started)
}
