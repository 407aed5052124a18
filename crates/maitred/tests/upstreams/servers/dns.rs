//! A name server whose answers the test decides, by UDP and TCP.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Types of records (RFC 1035 section 3.2.2, RFC 3596, RFC 2782).
const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;
/// What fits in a datagram here; for more, the client comes by TCP.
const DATAGRAM_BYTES: usize = 512;

/// What a name has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    pub(crate) addresses: Vec<Ipv4Addr>,
    pub(crate) addresses6: Vec<Ipv6Addr>,
    /// Priority, weight, port, target.
    pub(crate) services: Vec<(u16, u16, u16, String)>,
    /// In seconds.
    pub(crate) ttl: u32,
}

/// A name, and its records now.
type Answers = Box<dyn FnMut(&str) -> Option<Records> + Send>;

/// Answers until the test ends.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    questions: Arc<AtomicUsize>,
}

impl NameServer {
    pub(crate) fn start(answers: impl FnMut(&str) -> Option<Records> + Send + 'static) -> NameServer {
        // The kernel chooses a port that both have.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let server = NameServer {
            address: udp.local_addr().unwrap(),
            answers: Arc::new(Mutex::new(Box::new(answers))),
            questions: Arc::default(),
        };
        let (answers, questions) = (server.answers.clone(), server.questions.clone());
        std::thread::spawn(move || {
            let mut room = [0; 4096];
            while let Ok((length, from)) = udp.recv_from(&mut room) {
                questions.fetch_add(1, SeqCst);
                let answer = answer(&room[..length], &answers, DATAGRAM_BYTES);
                let _ = udp.send_to(&answer, from);
            }
        });
        let answers = server.answers.clone();
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().flatten() {
                let answers = answers.clone();
                std::thread::spawn(move || {
                    let mut length = [0; 2];
                    while stream.read_exact(&mut length).is_ok() {
                        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                        if stream.read_exact(&mut question).is_err() {
                            return;
                        }
                        let answer = answer(&question, &answers, usize::from(u16::MAX));
                        let length = (answer.len() as u16).to_be_bytes();
                        let _ = stream.write_all(&[&length[..], &answer].concat());
                    }
                });
            }
        });
        server
    }

    /// Other answers from now on.
    pub(crate) fn set(&self, answers: impl FnMut(&str) -> Option<Records> + Send + 'static) {
        *self.answers.lock().unwrap() = Box::new(answers);
    }

    /// Questions by UDP so far.
    pub(crate) fn questions(&self) -> usize {
        self.questions.load(SeqCst)
    }
}

/// A message with the answer to a message with one question (RFC 1035 section 4).
fn answer(question: &[u8], answers: &Mutex<Answers>, most: usize) -> Vec<u8> {
    let (mut name, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let length = usize::from(question[at]);
        name.push(String::from_utf8_lossy(&question[at + 1..=at + length]).to_lowercase());
        at += length + 1;
    }
    let (kind, end) = (u16::from_be_bytes([question[at + 1], question[at + 2]]), at + 5);
    let records = (answers.lock().unwrap())(&name.join("."));
    let found = records.is_some();
    let Records { addresses, addresses6, services, ttl } = records.unwrap_or_default();
    let mut data: Vec<Vec<u8>> = match kind {
        A => addresses.iter().map(|address| address.octets().to_vec()).collect(),
        AAAA => addresses6.iter().map(|address| address.octets().to_vec()).collect(),
        SRV => services.iter().map(service).collect(),
        _ => Vec::new(),
    };
    let bytes: usize = data.iter().map(|data| data.len() + 12).sum();
    let cut = end + bytes > most;
    if cut {
        data.clear();
    }
    let mut message = question[..2].to_vec();
    let flags = 0x8580_u16 | if cut { 0x0200 } else { 0 } | if found { 0 } else { 3 };
    message.extend_from_slice(&flags.to_be_bytes());
    for count in [1, data.len() as u16, 0, 0] {
        message.extend_from_slice(&count.to_be_bytes());
    }
    message.extend_from_slice(&question[12..end]);
    for data in data {
        // The name is that of the question, by its place.
        message.extend_from_slice(&[0xc0, 12]);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&1_u16.to_be_bytes());
        message.extend_from_slice(&ttl.to_be_bytes());
        message.extend_from_slice(&(data.len() as u16).to_be_bytes());
        message.extend_from_slice(&data);
    }
    message
}

fn service((priority, weight, port, target): &(u16, u16, u16, String)) -> Vec<u8> {
    let mut data: Vec<u8> =
        [priority, weight, port].into_iter().flat_map(|number| number.to_be_bytes()).collect();
    for label in target.split('.').filter(|label| !label.is_empty()) {
        data.push(label.len() as u8);
        data.extend_from_slice(label.as_bytes());
    }
    data.push(0);
    data
}

/// Addresses of a name that are good for no time.
pub(crate) fn addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Option<Records> {
    let mut records = Records::default();
    for address in addresses {
        match address {
            IpAddr::V4(address) => records.addresses.push(address),
            IpAddr::V6(address) => records.addresses6.push(address),
        }
    }
    Some(records)
}
