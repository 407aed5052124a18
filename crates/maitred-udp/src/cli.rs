//! The program `maitred-udp-proxy`: a path for clients that are not written in Rust. The program ends with its standard input,
//! on which it takes commands, one a line; each is answered by one line.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;

use crate::{Config, Faults, Handle, Path, Rate, Rebind};

/// A UDP proxy on loopback that makes a bad network between clients and a server. It says "listening on ADDRESS", takes commands
/// on its standard input, and ends with it: `counts` (answered by one line of JSON), `rebind`. Values are for both directions, or
/// two with a comma: to the server, to the client.
#[derive(Parser, Debug)]
#[command(name = "maitred-udp-proxy", version)]
struct Arguments {
    /// The server
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// Where clients send to
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The same seed has the same datagrams lost, reordered and duplicated
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How long each datagram is on its way, such as 20ms
    #[arg(long, value_name = "TIME", default_value = "0")]
    delay: Pair<Time>,
    /// Datagrams of a thousand that are lost
    #[arg(long, value_name = "PER MILLE", default_value = "0")]
    loss: Pair<u16>,
    /// Datagrams of a thousand that are late
    #[arg(long, value_name = "PER MILLE", default_value = "0")]
    reorder: Pair<u16>,
    /// By how much they are late
    #[arg(long, value_name = "TIME", default_value = "2ms")]
    reorder_delay: Pair<Time>,
    /// Datagrams of a thousand that arrive twice
    #[arg(long, value_name = "PER MILLE", default_value = "0")]
    duplicate: Pair<u16>,
    /// Whether ECN marks are cleared
    #[arg(long, value_name = "true|false", default_value = "false")]
    bleach_ecn: Pair<bool>,
    /// Larger datagrams are dropped; 0 is no limit
    #[arg(long, value_name = "BYTES", default_value = "0")]
    mtu: Pair<usize>,
    /// Bytes that pass in a second; 0 is no limit
    #[arg(long, value_name = "BYTES", default_value = "0")]
    rate: Pair<u64>,
    /// Bytes that may wait where there is such a limit
    #[arg(long, value_name = "BYTES", default_value = "100000")]
    queue: Pair<u64>,
    /// Go on from another port after so many datagrams of a client, again and again
    #[arg(long, value_name = "DATAGRAMS")]
    rebind_every: Option<u64>,
    /// Go on from another port so long after a client's first datagram
    #[arg(long, value_name = "TIME")]
    rebind_after: Option<Time>,
    /// Go on from another address, too
    #[arg(long)]
    rebind_address: bool,
}

/// A value for each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair<T>(T, T);

impl<T: FromStr<Err: std::fmt::Display> + Copy> FromStr for Pair<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair<T>, String> {
        let parse = |text: &str| text.parse().map_err(|error: T::Err| error.to_string());
        match text.split_once(',') {
            Some((to_server, to_client)) => Ok(Pair(parse(to_server)?, parse(to_client)?)),
            None => parse(text).map(|both| Pair(both, both)),
        }
    }
}

/// `20ms`, `100us`, `1s`; a bare number is milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Time(Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number = number.parse().map_err(|_| "wanted a number and a unit, such as 20ms".to_owned())?;
        match unit {
            "us" => Ok(Time(Duration::from_micros(number))),
            "ms" | "" => Ok(Time(Duration::from_millis(number))),
            "s" => Ok(Time(Duration::from_secs(number))),
            _ => Err(format!("unknown unit {unit:?}: us, ms and s are known")),
        }
    }
}

impl Arguments {
    fn config(&self) -> Config {
        Config {
            listen: self.listen,
            seed: self.seed,
            to_server: self.faults(true),
            to_client: self.faults(false),
            rebind: Rebind {
                every: self.rebind_every,
                after: self.rebind_after.map(|Time(after)| after),
                address: self.rebind_address,
            },
        }
    }

    /// The faults of one direction.
    fn faults(&self, to_server: bool) -> Faults {
        let bytes_per_second = self.rate.of(to_server);
        Faults {
            delay: self.delay.of(to_server).0,
            loss_per_mille: self.loss.of(to_server),
            reorder_per_mille: self.reorder.of(to_server),
            reorder_delay: self.reorder_delay.of(to_server).0,
            duplicate_per_mille: self.duplicate.of(to_server),
            bleach_ecn: self.bleach_ecn.of(to_server),
            mtu_bytes: Some(self.mtu.of(to_server)).filter(|bytes| *bytes > 0),
            rate: (bytes_per_second > 0)
                .then(|| Rate { bytes_per_second, queue_bytes: self.queue.of(to_server) }),
        }
    }
}

impl<T: Copy> Pair<T> {
    fn of(self, to_server: bool) -> T {
        if to_server { self.0 } else { self.1 }
    }
}

/// Runs until the end of standard input.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("maitred-udp-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let path = Path::start(arguments.config(), arguments.to)?;
    say(&format!("listening on {}", path.address()))?;
    for line in io::stdin().lock().lines() {
        say(&obey(&path, line?.trim())?)?;
    }
    Ok(())
}

fn obey(path: &Handle, command: &str) -> io::Result<String> {
    match command {
        "counts" => Ok(serde_json::to_string(&path.counts()?)?),
        "rebind" => path.rebind().map(|()| "rebound".to_owned()),
        _ => Ok(format!("unknown command {command:?}: counts and rebind are known")),
    }
}

/// A line that a waiting program gets at once.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_for_both_directions_or_there_are_two() {
        let arguments = [
            "x",
            "--to",
            "127.0.0.1:1",
            "--delay",
            "20ms,1s",
            "--loss",
            "5",
            "--mtu",
            "0,1300",
            "--rate",
            "1000",
        ];
        let config = Arguments::parse_from(arguments).config();
        assert_eq!(config.to_server.delay, Duration::from_millis(20));
        assert_eq!(config.to_client.delay, Duration::from_secs(1));
        assert_eq!((config.to_server.loss_per_mille, config.to_client.loss_per_mille), (5, 5));
        assert_eq!((config.to_server.mtu_bytes, config.to_client.mtu_bytes), (None, Some(1300)));
        assert!(config.to_server.rate.is_some_and(|rate| rate.bytes_per_second == 1000));
        assert!("20m".parse::<Time>().is_err() && "x".parse::<Pair<u16>>().is_err());
    }
}
