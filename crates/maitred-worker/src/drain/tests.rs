use super::*;
use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::{TcpListener, TcpStream};

#[test]
fn a_connection_arrives_with_its_bytes_and_its_past() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let (old, new) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    io::Write::write_all(&mut client, b"GET /").unwrap();

    // The client's address is from a PROXY header: the socket does not have it.
    let remote: Option<SocketAddr> = "192.0.2.7:99".parse().ok();
    let note = Note { awaits_proxy: true, requests: 70_000, idle: IdleTime::from_bits(0x1234), remote };
    let mut room = vec![0; ROOM_BYTES];
    let waiting = Carried { head: b"POST / HTTP/1.1\r\n\r\n", body: &[b'b'; 70_000], input: b"GET" };
    send_connection(old.as_fd(), accepted.as_fd(), &note, waiting).unwrap();
    send_connection(old.as_fd(), accepted.as_fd(), &note, Carried::default()).unwrap();
    drop(accepted);
    let transfer = receive_connection(new.as_fd(), &mut room).unwrap().unwrap();
    assert_eq!(
        (&*transfer.text, &*transfer.request.body.content, &*transfer.input),
        (waiting.head, waiting.body, waiting.input)
    );
    let transfer = receive_connection(new.as_fd(), &mut room).unwrap().unwrap();
    assert!(
        transfer.text.is_empty() && transfer.request.body.content.is_empty() && transfer.input.is_empty()
    );
    assert_eq!((transfer.requests, transfer.remote), (70_000, remote));
    assert_eq!(transfer.idle, note.idle);
    assert!(transfer.awaits_proxy);
    for remote in [None, "[2001:db8::1]:1".parse().ok(), "[::]:0".parse().ok()] {
        let note = Note { awaits_proxy: false, remote, ..note };
        let bytes = note.to_bytes(Carried::default());
        assert_eq!(Note::from_bytes(&bytes).map(|(note, _)| note), Some(note));
    }
    let mut bytes = [0; 5];
    io::Read::read_exact(&mut TcpStream::from(transfer.socket), &mut bytes).unwrap();
    assert_eq!(&bytes, b"GET /");

    let empty = receive_connection(new.as_fd(), &mut room).unwrap_err();
    assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    // The note of another version is not interpreted; its connection is closed.
    let mut strange = note.to_bytes(waiting);
    assert!(Note::from_bytes(&strange).is_none(), "less than it says");
    strange = note.to_bytes(Carried::default());
    strange[1] += 1;
    assert!(Note::from_bytes(&strange).is_none());
    rustix::net::send(&old, &strange, SendFlags::empty()).unwrap();
    let refused = receive_connection(new.as_fd(), &mut room).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    drop(old);
    assert!(receive_connection(new.as_fd(), &mut room).unwrap().is_none());
}

proptest! {
    /// Another image of the executable may have written it: whatever comes is refused or read, and what was written is read as it
    /// was.
    #[test]
    fn any_bytes_are_a_note_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Note::from_bytes(&bytes);
        if bytes.len() > 1 {
            bytes[1] = NOTE_VERSION;
        }
        if let Some((_, carried)) = Note::from_bytes(&bytes) {
            let parts = [carried.head, carried.body, carried.input].concat();
            prop_assert_eq!(&parts[..], &bytes[NOTE_BYTES..], "no byte twice, and none lost");
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written(
        awaits_proxy: bool,
        requests: u32,
        idle: u16,
        address: Option<(std::net::IpAddr, u16)>,
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 3),
    ) {
        let remote = address.map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port));
        let note = Note { awaits_proxy, requests, idle: IdleTime::from_bits(idle), remote };
        let carried = Carried { head: &parts[0], body: &parts[1], input: &parts[2] };
        let bytes = [&note.to_bytes(carried)[..], &parts.concat()].concat();
        let (read, again) = Note::from_bytes(&bytes).unwrap();
        prop_assert_eq!(read, note);
        prop_assert_eq!((again.head, again.body, again.input), (carried.head, carried.body, carried.input));
        // One byte less of head or body is not a shorter request.
        let missing = parts[2].len() + 1;
        if missing <= parts.concat().len() {
            prop_assert!(Note::from_bytes(&bytes[..bytes.len() - missing]).is_none());
        }
    }
}

#[test]
fn what_goes_with_a_connection_fits_into_one_message() {
    let (old, new) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let note = Note { awaits_proxy: false, requests: 1, idle: IdleTime::default(), remote: None };
    let body = vec![7; CARRIED_BYTES_MAX - 10];
    let most = Carried { head: b"01234", body: &body, input: b"56789" };
    send_connection(old.as_fd(), new.as_fd(), &note, most).unwrap();
    let received = receive_connection(new.as_fd(), &mut vec![0; ROOM_BYTES]).unwrap().unwrap();
    assert_eq!(
        (received.request.body.content.len(), &*received.input),
        (CARRIED_BYTES_MAX - 10, &b"56789"[..])
    );
    assert_eq!((received.listen, received.origin), (NO_LISTEN, Origin::Predecessor));
}

#[test]
fn a_drain_is_over_when_both_of_its_times_are() {
    let now = Instant::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    for (until, streams_until, expected) in [
        (at(0), Some(at(0)), true),
        (at(1), Some(at(0)), false),
        (at(0), Some(at(1)), false),
        // Requests take as long as they take.
        (at(0), None, false),
    ] {
        let (grace, next_look) = (Duration::ZERO, now);
        let drain = Drain { until, grace, streams_until, said: false, successor: None, next_look };
        assert_eq!(drain.is_over(now), expected);
        assert_eq!(drain.is_over(at(100)), streams_until.is_some());
    }
}
