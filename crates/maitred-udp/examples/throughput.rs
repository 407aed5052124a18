//! How much a path without faults passes, and the CPU time that it takes: 500 MB in datagrams of 1,200 bytes, which leave the
//! client as QUIC's do, in batches by GSO. The server acknowledges, so that nothing overflows.
//!
//!     cargo run --release -p maitred-udp --example throughput

#![allow(clippy::unwrap_used, reason = "a program for developers")]

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use maitred_udp::{Config, Path};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};

const DATAGRAM_BYTES: usize = 1200;
const BATCH: usize = 50;
const BATCHES: u64 = 500_000_000 / (BATCH * DATAGRAM_BYTES) as u64;
/// Batches that may be on their way.
const WINDOW: u64 = 20;
/// A lost datagram ends the run.
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = Path::start(Config::default(), server.local_addr().unwrap()).unwrap();
    std::thread::spawn(move || serve(&server));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(path.address()).unwrap();
    let state = UdpSocketState::new(UdpSockRef::from(&client)).unwrap();
    client.set_nonblocking(false).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let contents = [7; BATCH * DATAGRAM_BYTES];
    let transmit = Transmit {
        destination: path.address(),
        ecn: None,
        contents: &contents,
        segment_size: Some(DATAGRAM_BYTES),
        src_ip: None,
    };
    let (began, mut acknowledged) = (Instant::now(), 0);
    for sent in 0..BATCHES {
        while sent - acknowledged > WINDOW {
            client.recv(&mut [0]).unwrap();
            acknowledged += 1;
        }
        state.try_send(UdpSockRef::from(&client), &transmit).unwrap();
    }
    while acknowledged < BATCHES {
        client.recv(&mut [0]).unwrap();
        acknowledged += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    let bytes = (BATCHES * (BATCH * DATAGRAM_BYTES) as u64) as f64;
    println!(
        "{:.0} MB/s, {:.2} s of CPU for {:.1} s",
        bytes / seconds / 1e6,
        cpu_seconds("udp path"),
        seconds
    );
    println!("{:?}", path.finish().unwrap());
}

/// Acknowledges each batch.
fn serve(server: &UdpSocket) {
    let state = UdpSocketState::new(UdpSockRef::from(server)).unwrap();
    // What is on its way takes twice its bytes there.
    state.set_recv_buffer_size(UdpSockRef::from(server), 4 * 1024 * 1024).unwrap();
    let mut room = vec![0; 65_536 * BATCH_SIZE];
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut seen = 0;
    loop {
        let mut slices: Vec<_> = room.chunks_exact_mut(65_536).map(IoSliceMut::new).collect();
        // A receive that waits would wait until all buffers are filled.
        poll(&mut [PollFd::new(server, PollFlags::IN)], None).unwrap();
        let count = state.recv(UdpSockRef::from(server), &mut slices, &mut metas).unwrap();
        for meta in &metas[..count] {
            seen += meta.len.div_ceil(meta.stride);
            while seen >= BATCH {
                seen -= BATCH;
                server.send_to(&[1], meta.addr).unwrap();
            }
        }
    }
}

/// What a thread of this process has had of the CPU.
fn cpu_seconds(name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let of_it =
        |task: &std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap().trim() == name;
    let task = tasks.into_iter().find(of_it).unwrap();
    let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
    times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
