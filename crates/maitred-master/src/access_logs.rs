//! Opens what access logs are written to: files, and the sockets of syslog and journald.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::own_files::Outsiders;
use maitred_config::{Config, LogTarget};

/// Where journald takes messages in its own form (systemd.io/JOURNAL_NATIVE_PROTOCOL).
const JOURNALD: &str = "/run/systemd/journal/socket";

/// The file of `[log]`, which has no number, and what those of `[access_log.NAME]` are written to, by their places in the
/// configuration. What goes to standard output is not among them.
///
/// # Errors
/// A text for the operator.
pub(super) fn open(config: &Config, outsiders: &Outsiders) -> Result<Vec<(Option<usize>, OwnedFd)>, String> {
    let file = |path: &Path| Ok(Some(outsiders.append(path, 0o640)?.into()));
    let opened = each(config, file).into_iter().collect::<Result<Vec<_>, String>>()?;
    Ok(opened.into_iter().filter_map(|(number, sink)| Some((number, sink?))).collect())
}

/// The files among them, opened anew.
///
/// # Errors
/// A text for the operator, for each that cannot be opened.
pub(super) fn reopen(
    config: &Config,
    outsiders: &Outsiders,
) -> impl Iterator<Item = Result<(Option<usize>, OwnedFd), String>> {
    let main = config.log.access_file.as_deref().map(|path| (None, path));
    let named = config.access_logs.iter().enumerate().filter_map(|(number, log)| match &log.to {
        LogTarget::File(path) => Some((Some(number), path.as_path())),
        LogTarget::Stdout | LogTarget::Journald | LogTarget::SyslogSocket(_) | LogTarget::SyslogUdp(_) => {
            None
        }
    });
    main.into_iter().chain(named).map(|(number, path)| {
        let file = outsiders.append(path, 0o640).map_err(|why| format!("log file {why}"))?;
        Ok((number, file.into()))
    })
}

/// What [`open`] would refuse. Files are not made.
pub(super) fn judge(config: &Config, outsiders: &Outsiders) -> Vec<String> {
    each(config, |path| outsiders.judge_append(path).map(|()| None))
        .into_iter()
        .filter_map(Result::err)
        .collect()
}

/// The number of a log, `None` for the main one, and what it is written to; `None` if that was judged only.
type Opened = (Option<usize>, Option<OwnedFd>);

/// What each log is written to; files are opened by `file`.
fn each(
    config: &Config,
    file: impl Fn(&Path) -> Result<Option<OwnedFd>, String>,
) -> Vec<Result<Opened, String>> {
    let file = |path: &Path| file(path).map_err(|why| format!("log file {why}"));
    let main = config.log.access_file.as_ref().map(|path| file(path).map(|sink| (None, sink)));
    let named = config.access_logs.iter().enumerate().filter_map(|(number, log)| {
        let failed = |place: &dyn std::fmt::Display, error: std::io::Error| {
            format!("[access_log.{}]: {place}: {error}; is the daemon running that takes it?", log.name)
        };
        let sink = match &log.to {
            LogTarget::Stdout => return None,
            LogTarget::File(path) => file(path),
            LogTarget::Journald => {
                datagram(Path::new(JOURNALD)).map(Some).map_err(|error| failed(&JOURNALD, error))
            }
            LogTarget::SyslogSocket(path) => {
                datagram(path).map(Some).map_err(|error| failed(&path.display(), error))
            }
            LogTarget::SyslogUdp(to) => udp(*to).map(Some).map_err(|error| failed(to, error)),
        };
        Some(sink.map(|sink| (Some(number), sink)))
    });
    main.into_iter().chain(named).collect()
}

/// A socket to a daemon of this machine.
fn datagram(path: &Path) -> std::io::Result<OwnedFd> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    Ok(socket.into())
}

/// A socket to a server. UDP has no connection, so that this succeeds whether it is there or not.
fn udp(to: SocketAddr) -> std::io::Result<OwnedFd> {
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    Ok(socket.into())
}
