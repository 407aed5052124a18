//! Both implementations of the protocol against each other: frames of this crate to the Python adapter and back.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use maitred_handoff::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// An adapter that is stopped by the end of its channel, and reaped whatever the test does.
struct Adapter {
    process: Child,
    channel: UnixStream,
    input: Vec<u8>,
}

impl Adapter {
    fn start() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let process = Command::new("python3")
            .args(["-m", "maitred", "tests.reference:application"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../adapters/python"))
            // Standard input is inherited without any unsafe code, and the variable may name any descriptor.
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .env(CHANNEL_VARIABLE, "0")
            .spawn()
            .unwrap();
        Self { process, channel: ours, input: Vec::new() }
    }

    fn send(&self, bytes: &[u8], descriptor: &impl AsFd) {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = [descriptor.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let sent = sendmsg(&self.channel, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, bytes.len());
    }

    /// Reads until a frame is complete, and gives it to `look`.
    fn frame<T>(&mut self, look: impl FnOnce(FromApp<'_>) -> T) -> T {
        loop {
            if let Some((frame, used)) = FromApp::decode(&self.input).unwrap() {
                let seen = look(frame);
                self.input.drain(..used);
                return seen;
            }
            let mut piece = [0; 4096];
            let received = self.channel.read(&mut piece).unwrap();
            assert!(received > 0, "the adapter closed the channel");
            self.input.extend_from_slice(&piece[..received]);
        }
    }

    fn done(&mut self) -> Done {
        self.frame(|frame| match frame {
            FromApp::Done(done) => done,
            other => panic!("wanted DONE, found {other:?}"),
        })
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn request(out: &mut Vec<u8>, number: u32, target: &str, body: &[u8], descriptors: u16) {
    let flags = RequestFlags { keep: true, ..RequestFlags::default() };
    let meta =
        begin_request(out, 5, number, flags, descriptors).line("remote", "[::1]:7").number("queue_us", 3);
    let mut head = meta.head("POST", target);
    head.field("Host", b"example.com");
    let mut part = head.body(Some(body.len() as u64));
    part.extend(body);
    assert!(part.finish(PAYLOAD_BYTES_MAX));
}

#[test]
fn the_python_adapter_speaks_what_this_crate_speaks() {
    let mut adapter = Adapter::start();
    adapter.frame(|frame| match frame {
        FromApp::Hello(hello) => {
            assert_eq!((hello.version_min, hello.version_max, hello.capacity), (VERSION, VERSION, 1));
            assert!(hello.name.starts_with("python"));
        }
        other => panic!("wanted HELLO, found {other:?}"),
    });
    adapter.frame(|frame| match frame {
        FromApp::Limits { open_files } => assert!(open_files >= 16),
        other => panic!("wanted LIMITS, found {other:?}"),
    });
    adapter.frame(|frame| assert_eq!(frame, FromApp::Streams));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    far.set_nonblocking(true).unwrap();

    let mut out = Vec::new();
    encode_welcome(&mut out, &Welcome { version: VERSION, payload_bytes_max: PAYLOAD_BYTES_MAX });
    request(&mut out, 1, "/bytes/3", b"", 1);
    encode_ping(&mut out, 77);
    request(&mut out, 2, "/echo?q", b"body", 0);
    encode_forget(&mut out, 5);
    encode_shutdown(&mut out);
    adapter.send(&out, &far);
    drop(far);

    let done = adapter.done();
    assert_eq!((done.connection, done.request, done.status, done.body_bytes), (5, 1, 200, 3));
    assert_eq!(done.outcome, Outcome::Clean);
    adapter.frame(|frame| assert_eq!(frame, FromApp::Pong { request: 77 }));
    let done = adapter.done();
    assert_eq!((done.request, done.status, done.outcome), (2, 200, Outcome::Clean));
    assert!(adapter.process.wait().unwrap().success());

    // No process holds the connection any more, so that it ends.
    let mut text = String::new();
    near.read_to_string(&mut text).unwrap();
    assert!(text.contains("\r\n\r\nxxxHTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains(r#""remote": "::1 7""#) && text.contains(r#""body": "Ym9keQ==""#), "{text}");
}
