use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::SocketType;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, ServerConfig, SupportedProtocolVersion};

use super::*;
use crate::keys::{Key, SessionKey, Table, TlsKey};
use crate::testing::sockets;
use maitred_base::pki::files;
use maitred_testing::{Authority, connect};
use maitred_tls::ktls::transmit::wrapped;

/// A client, and the session of its handshake, which is over.
fn session(version: &'static SupportedProtocolVersion) -> (ClientConnection, TlsSession) {
    let (client, tls) = handshake(version, Arc::clone(maitred_base::pki::provider()));
    (client, TlsSession { begun: true, settled: true, ..TlsSession::new(tls, None, false) })
}

/// The same, with this cryptography on the server's side.
fn handshake(
    version: &'static SupportedProtocolVersion,
    provider: Arc<CryptoProvider>,
) -> (ClientConnection, ServerConnection) {
    let authority = Authority::new("tests");
    let made = authority.sign(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let chain = files::certificates(made.certificate.as_bytes()).unwrap();
    let key = files::private_key(made.key.as_bytes()).unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let client = Arc::new(authority.client(&[version], None));
    let connected = connect(&client, Arc::new(server), "a.test").unwrap();
    (connected.client, connected.server)
}

/// A session whose keys are noted.
fn noted() -> (ClientConnection, TlsSession) {
    let provider = Arc::new(wrapped(maitred_base::pki::provider()));
    let ((client, tls), keys) = noting(false, || handshake(&TLS13, provider));
    let session = TlsSession { begun: true, settled: true, ..TlsSession::new(tls, None, true) };
    (client, TlsSession { sender: Sender::Noted(keys), ..session })
}

/// What the session has to send.
fn sent(session: &mut TlsSession) -> Vec<u8> {
    let mut wire = Vec::new();
    assert!(session.flush(&mut wire).unwrap());
    wire
}

/// The client asks for other keys, and the session has heard it.
fn change_keys(client: &mut ClientConnection, session: &mut TlsSession) {
    client.refresh_traffic_keys().unwrap();
    let wire = encrypted(client);
    session.take(&wire, &mut Vec::new()).unwrap();
}

#[test]
fn a_request_for_other_keys_is_answered_before_the_kernel_gets_any() {
    let (mut client, mut session) = noted();
    sent(&mut session);
    change_keys(&mut client, &mut session);
    let Sender::Noted(Some(keys)) = &session.sender else { panic!("{:?}", session.sender) };
    assert_eq!(keys.keys().sequence, 0, "nothing was sent with the new ones");
    // The answer waits for the socket: without it, the client could not read what the kernel sends with the new keys.
    let mut wire = &sent(&mut session)[..];
    assert!(!wire.is_empty());
    session.encrypt(b"with the new keys");
    let rest = sent(&mut session);
    let mut got = [0; 17];
    for mut part in [std::mem::take(&mut wire), &rest[..]] {
        client.read_tls(&mut part).unwrap();
        client.process_new_packets().unwrap();
    }
    client.reader().read_exact(&mut got).unwrap();
    assert_eq!(&got, b"with the new keys");
}

#[test]
fn each_request_for_other_keys_has_its_own_where_the_kernel_sends() {
    let (mut client, mut session) = noted();
    sent(&mut session);
    let Sender::Noted(Some(keys)) = &session.sender else { panic!("{:?}", session.sender) };
    keys.leave_plain();
    session.sender = Sender::Kernel { record: Record::default(), next: VecDeque::new() };
    for count in 1..=2 {
        change_keys(&mut client, &mut session);
        let Sender::Kernel { next, .. } = &session.sender else { panic!("{:?}", session.sender) };
        assert_eq!(next.len(), count, "the socket has taken no answer yet");
    }
    // Two key updates (RFC 8446 section 4.6.3), which ask for nothing, and as they are.
    assert_eq!(sent(&mut session), b"\x16\x03\x03\x00\x05\x18\x00\x00\x01\x00".repeat(2));
}

/// What the client sends, encrypted.
fn encrypted(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).unwrap();
    }
    wire
}

#[test]
fn records_are_decrypted_however_they_arrive() {
    let (mut client, mut session) = session(&TLS13);
    for size in [1, 7, 1000, 40_000] {
        let text = vec![b'x'; 33_000];
        // More than one record, and less than what a client keeps before it is sent.
        client.writer().write_all(&text).unwrap();
        let wire = encrypted(&mut client);
        let mut rx = b"before".to_vec();
        wire.chunks(size).for_each(|piece| session.take(piece, &mut rx).unwrap());
        assert_eq!(rx.len(), 6 + text.len(), "pieces of {size}");
        assert!(rx.starts_with(b"before") && rx[6..] == text[..] && !session.closed);
    }
}

/// RFC 8446 section 6.1: whatever follows the alert is to be ignored.
#[test]
fn nothing_after_close_notify_is_read() {
    for version in [&TLS12, &TLS13] {
        let (mut client, mut session) = session(version);
        client.writer().write_all(b"last").unwrap();
        client.send_close_notify();
        let mut wire = encrypted(&mut client);
        wire.extend_from_slice(b"GET / HTTP/1.1\r\n");
        let mut rx = Vec::new();
        session.take(&wire, &mut rx).unwrap();
        session.take(b"more", &mut rx).unwrap();
        assert_eq!((&*rx, session.closed), (&b"last"[..], true));
    }
}

#[test]
fn what_is_no_record_ends_the_session() {
    let (mut client, mut session) = session(&TLS13);
    client.writer().write_all(b"text").unwrap();
    let mut wire = encrypted(&mut client);
    *wire.last_mut().unwrap() ^= 1;
    let mut rx = Vec::new();
    assert!(session.take(&wire, &mut rx).is_err(), "a record that was changed on its way");
    assert!(rx.is_empty());
    let (_, mut session) = super::tests::session(&TLS12);
    assert!(session.take(b"GET / HTTP/1.1\r\n\r\n", &mut rx).is_err());
}

/// Takes so many bytes, and then none for now.
struct Room(usize, Vec<u8>);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0 -= taken;
        self.1.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn encrypted_bytes_wait_for_room() {
    let (mut client, mut session) = session(&TLS13);
    session.tls.writer().write_all(&[b'y'; 5000]).unwrap();
    session.unsent = 5000;
    let mut room = Room(100, Vec::new());
    assert!(!session.flush(&mut room).unwrap());
    assert_eq!(session.unsent(), 4900);
    room.0 = 100_000;
    assert!(session.flush(&mut room).unwrap());
    assert_eq!(session.unsent(), 0, "the overhead of records is not left over");
    let mut wire = &room.1[..];
    while !wire.is_empty() {
        client.read_tls(&mut wire).unwrap();
        client.process_new_packets().unwrap();
    }
    let mut got = Vec::new();
    let ended = client.reader().read_to_end(&mut got).map_err(|error| error.kind());
    assert_eq!((got, ended), (vec![b'y'; 5000], Err(io::ErrorKind::WouldBlock)));
}

/// The fields that an application gets of a session.
fn fields(change: impl FnOnce(&mut TlsSession), version: &'static SupportedProtocolVersion) -> Vec<String> {
    let (_, mut session) = session(version);
    change(&mut session);
    let (mut tables, sessions, connections) = (Table::new(), Table::new(), Table::new());
    let session = tables.insert(Box::new(session));
    let lookup = TlsLookup::new(&tables, &sessions, &connections);
    let mut fields = Vec::new();
    let mut note =
        |name: &str, value: &[u8]| fields.push(format!("{name}: {}", String::from_utf8_lossy(value)));
    lookup.fields(Wire::Clear, &mut note);
    lookup.fields(Wire::Tls { session: TlsKey::of(session.place() + 1) }, &mut note);
    lookup.fields(Wire::Stream { session: SessionKey::of(0), stream: 1 }, &mut note);
    lookup.fields(Wire::Tls { session }, &mut note);
    fields
}

#[test]
fn an_application_learns_version_suite_and_certificate_of_its_client() {
    let new = fields(|_| (), &TLS13);
    assert_eq!(new[0], "x-ssl-protocol: TLSv1.3");
    assert!(new[1].starts_with("x-ssl-cipher: TLS_") && new.len() == 2, "{new:?}");
    let old = fields(|_| (), &TLS12);
    assert_eq!(old[0], "x-ssl-protocol: TLSv1.2");
    assert!(old[1].starts_with("x-ssl-cipher: TLS_ECDHE_") && old.len() == 2, "{old:?}");
    let early = fields(|session| session.settled = false, &TLS13);
    assert_eq!(early[2..], ["early-data: 1"], "RFC 8470 section 5.1");
    let identity = Identity { subject: "CN=Alice".into(), serial: "0A".into(), fingerprint: "ff".into() };
    let known = fields(|session| session.identity = Some(Box::new(identity)), &TLS13);
    let expected = ["Verify: SUCCESS", "S-DN: CN=Alice", "Serial: 0A", "Fingerprint: ff"]
        .map(|end| format!("X-SSL-Client-{end}"));
    assert_eq!(known[2..], expected);
}

#[test]
fn a_stream_has_the_session_of_its_connection() {
    let (_, session) = session(&TLS13);
    let (mut tables, mut sessions, mut connections) = (Table::new(), Table::new(), Table::new());
    let key = tables.insert(Box::new(session));
    let mut parent = Entry::new(sockets(SocketType::STREAM).0, 0, None, Instant::now());
    parent.wire = Wire::Tls { session: key };
    let index = connections.insert(parent);
    let mut http2 = crate::connection::multiplexed::tests::connection(Instant::now(), 0).0;
    http2.index = index;
    let of = sessions.insert(Box::new(http2));
    let found = |sessions: &Table<_, _>, connections: &Table<_, _>, session| {
        TlsLookup::new(&tables, sessions, connections).secure(Wire::Stream { session, stream: 0 }).is_some()
    };
    assert!(
        found(&sessions, &connections, of) && !found(&sessions, &connections, SessionKey::of(of.place() + 1))
    );
    connections[index].wire = Wire::Clear;
    assert!(!found(&sessions, &connections, of), "HTTP/2 without TLS");
    connections.remove(index);
    assert!(!found(&sessions, &connections, of), "its connection has gone");
}
