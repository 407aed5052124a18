//! Sending TLS 1.3 by the kernel: `Documentation/networking/tls.rst` of Linux, include/uapi/linux/tls.h.
//!
//! Once keys are given to a TCP socket, what is written to it by send(2), writev(2) or sendfile(2), by whichever process, leaves
//! as records of application data. Receiving stays as it was: recv(2) gives the records that came, encrypted.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use zeroize::Zeroize as _;

/// `TLS_1_3_VERSION`
const VERSION: u16 = 0x0304;
/// `TLS_TX`
const TLS_TX: libc::c_int = 1;
/// `TLS_SET_RECORD_TYPE`
const TLS_SET_RECORD_TYPE: libc::c_int = 1;
/// Bytes of a nonce of all three ciphers.
pub const NONCE_BYTES: usize = 12;
/// The longest description of keys: version and cipher, nonce, key, number of the record.
const INFO_BYTES_MAX: usize = 4 + NONCE_BYTES + 32 + 8;

/// What encrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// `TLS_AES_128_GCM_SHA256`
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`
    Chacha20Poly1305,
}

/// What the records of one direction are encrypted with.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// The cipher.
    pub cipher: Cipher,
    /// As long as [`Cipher::key_bytes`] says.
    pub key: &'a [u8],
    /// What nonces are made from (RFC 8446 section 5.3).
    pub nonce: &'a [u8; NONCE_BYTES],
    /// The number of the next record.
    pub sequence: u64,
}

impl Cipher {
    /// Bytes of its keys.
    pub fn key_bytes(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes256Gcm | Cipher::Chacha20Poly1305 => 32,
        }
    }

    /// `TLS_CIPHER_…`
    fn number(self) -> u16 {
        match self {
            Cipher::Aes128Gcm => 51,
            Cipher::Aes256Gcm => 52,
            Cipher::Chacha20Poly1305 => 54,
        }
    }
}

impl Keys<'_> {
    /// `struct tls12_crypto_info_…`: no field has padding before it. `None` for a key of another length.
    fn info(&self) -> Option<([u8; INFO_BYTES_MAX], usize)> {
        if self.key.len() != self.cipher.key_bytes() {
            return None;
        }
        // The structures of GCM have the nonce in two parts: the first four bytes are its "salt", which comes behind the key.
        let split = if self.cipher == Cipher::Chacha20Poly1305 { 0 } else { 4 };
        let (salt, iv) = self.nonce.split_at(split);
        let (mut info, mut at) = ([0; INFO_BYTES_MAX], 0);
        let (version, cipher) = (VERSION.to_ne_bytes(), self.cipher.number().to_ne_bytes());
        for part in [&version[..], &cipher, iv, self.key, salt, &self.sequence.to_be_bytes()] {
            info.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        Some((info, at))
    }
}

/// Prepares a connected TCP socket. Nothing changes for what is sent before it has keys.
///
/// # Errors
/// What setsockopt(2) says: `ENOENT` if the kernel has no TLS, or its module is not loaded and this process may not load it.
pub fn attach(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives keys to a socket that is prepared: from now on the kernel encrypts what is sent. Other keys in their place are taken
/// from Linux 6.14 on.
///
/// # Errors
/// What setsockopt(2) says: `EBUSY` for other keys before Linux 6.14, `EINVAL` or `ENOENT` for a cipher that the kernel does not
/// have; `InvalidInput` for a key of the wrong length.
pub fn set_keys(socket: BorrowedFd<'_>, keys: &Keys<'_>) -> io::Result<()> {
    let (mut info, bytes) = keys.info().ok_or(io::ErrorKind::InvalidInput)?;
    let result = set(socket, libc::SOL_TLS, TLS_TX, info.get(..bytes).unwrap_or_default());
    info.zeroize();
    result
}

/// How many records the kernel has sent with the keys that it has now.
///
/// # Errors
/// What getsockopt(2) says; `InvalidData` if the answer is no description of keys.
pub fn sent_records(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut info = [0_u8; INFO_BYTES_MAX];
    // The kernel takes only the length that belongs to the cipher, which is one of two.
    let read = |info: &mut [u8]| {
        let mut bytes = info.len() as libc::socklen_t;
        // SAFETY: the kernel writes no more than `bytes` bytes, which `info` has.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_TLS,
                TLS_TX,
                info.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    let short = 4 + NONCE_BYTES + 16 + 8;
    let mut bytes = info.len();
    if read(&mut info).is_err() {
        bytes = short;
        read(info.get_mut(..short).unwrap_or_default())?;
    }
    let number = info.get(bytes - 8..bytes).and_then(|number| <[u8; 8]>::try_from(number).ok());
    info.zeroize();
    number.map(u64::from_be_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends bytes as a record of another type than application data (RFC 8446 section 5.1: 21 is an alert, 22 is handshake). Never
/// waits. Gives back how many were taken.
///
/// # Errors
/// What sendmsg(2) says.
pub fn send_record(socket: BorrowedFd<'_>, kind: u8, bytes: &[u8]) -> io::Result<usize> {
    /// Room for one byte with its header, aligned as headers have to be.
    #[repr(C, align(8))]
    struct Control([u8; 32]);
    let mut control = Control([0; 32]);
    let slice = IoSlice::new(bytes);
    // SAFETY: all of its fields are integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = std::ptr::from_ref(&slice).cast_mut().cast();
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE computes a length from a length; 24 on 64-bit systems, which fits.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(1) } as _;
    // SAFETY: the control buffer is as long as `msg_controllen` says and aligned for a header, so that there is a first one,
    // and its data has room for a byte. `IoSlice` has the layout of `iovec`, and sendmsg(2) does not write through it.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        *libc::CMSG_DATA(header) = kind;
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn set(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn keys_are_described_as_the_kernel_reads_them() {
        let nonce = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let describe = |cipher: Cipher| {
            let key = vec![0xee; cipher.key_bytes()];
            let keys = Keys { cipher, key: &key, nonce: &nonce, sequence: 0x0102 };
            let (info, bytes) = keys.info().unwrap();
            // The sizes of the structures in include/uapi/linux/tls.h.
            (info[..bytes].to_vec(), bytes)
        };
        let (info, bytes) = describe(Cipher::Aes128Gcm);
        assert_eq!((bytes, &info[4..12], &info[28..32]), (40, &nonce[4..], &nonce[..4]));
        assert_eq!((&info[12..28], &info[32..]), (&[0xee; 16][..], &[0, 0, 0, 0, 0, 0, 1, 2][..]));
        assert_eq!(describe(Cipher::Aes256Gcm).1, 56);
        let (info, bytes) = describe(Cipher::Chacha20Poly1305);
        assert_eq!((bytes, &info[4..16], &info[16..48]), (56, &nonce[..], &[0xee; 32][..]));
        let short = Keys { cipher: Cipher::Aes256Gcm, key: &[0; 16], nonce: &nonce, sequence: 0 };
        assert!(short.info().is_none());
    }

    /// What is written with keys leaves as records, which are counted. Without a kernel that has TLS, nothing is written.
    #[test]
    fn records_are_made_and_counted() {
        use std::io::{Read as _, Write as _};

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        if let Err(error) = attach(server.as_fd()) {
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
            assert!(std::env::var_os("MAITRED_TEST_KTLS").is_none(), "the machine was to have it");
            assert!(sent_records(server.as_fd()).is_err());
            return eprintln!("SKIPPED: this kernel has no TLS; `cargo xtask vm-test` runs the rest");
        }
        let key = [7; 32];
        let keys = Keys { cipher: Cipher::Aes256Gcm, key: &key, nonce: &[1; NONCE_BYTES], sequence: 5 };
        set_keys(server.as_fd(), &keys).unwrap();
        assert_eq!(sent_records(server.as_fd()).unwrap(), 5);
        server.write_all(b"content").unwrap();
        assert_eq!(send_record(server.as_fd(), 21, &[1, 0]).unwrap(), 2);
        assert_eq!(sent_records(server.as_fd()).unwrap(), 7);
        drop(server);
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        // Headers, and what is longer than the content by its type and its tag (RFC 8446 section 5.2).
        assert_eq!(
            (&got[..5], &got[29..34]),
            (b"\x17\x03\x03\0\x18".as_slice(), b"\x17\x03\x03\0\x13".as_slice())
        );
        assert_eq!(got.len(), 5 + 24 + 5 + 19);
        let short = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        attach(short.as_fd()).unwrap();
        let keys = Keys { cipher: Cipher::Aes128Gcm, key: &key[..16], ..keys };
        set_keys(short.as_fd(), &keys).unwrap();
        assert_eq!(sent_records(short.as_fd()).unwrap(), 5);
    }

    /// Without keys, the socket is an ordinary one; a kernel without TLS says so.
    #[test]
    fn a_socket_that_is_prepared_sends_as_before() {
        use std::io::{Read as _, Write as _};

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        if let Err(error) = attach(server.as_fd()) {
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
        }
        server.write_all(b"plain").unwrap();
        let mut got = [0; 5];
        client.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"plain");
        assert!(attach(io::stdin().as_fd()).is_err());
    }
}
