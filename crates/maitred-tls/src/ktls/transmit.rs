//! The keys of what a session sends, and who encrypts with them.
//!
//! rustls gives keys away only with the whole session. But it lets its ciphers be replaced, so that each cipher here is rustls'
//! own with a note of the keys that it was given. Which session they are of is known because a thread works on one session at a
//! time: [`noting`] gives what was made during one call.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, LazyLock};

use maitred_sys::ktls::{Cipher, Keys, NONCE_BYTES};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{
    AeadKey, Iv, MessageDecrypter, MessageEncrypter, OutboundOpaqueMessage, OutboundPlainMessage,
    PrefixedPayload, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, Error, ProtocolVersion, SupportedCipherSuite, Tls13CipherSuite,
};
use zeroize::Zeroizing;

/// Records with one key: AES-GCM is good for 2^24.5 (RFC 8446 section 5.5), and one response more has to fit. rustls counts those
/// that it makes, and the kernel those that it makes; it is asked between requests.
pub const RECORDS_MAX: u64 = 1 << 23;

thread_local! {
    /// What was made last during [`noting`].
    static LATEST: RefCell<Option<Arc<Transmit>>> = const { RefCell::new(None) };
    /// Whether what is made now is for a session whose records the kernel encrypts.
    static PLAIN: Cell<bool> = const { Cell::new(false) };
}

/// The keys of what one session sends, since they were changed last.
pub struct Transmit {
    cipher: Cipher,
    key: Zeroizing<Box<[u8]>>,
    nonce: Zeroizing<[u8; NONCE_BYTES]>,
    /// The number of the next record.
    next: AtomicU64,
    /// The kernel encrypts: records leave rustls as they are.
    plain: AtomicBool,
}

impl Transmit {
    /// For the kernel.
    pub fn keys(&self) -> Keys<'_> {
        Keys { cipher: self.cipher, key: &self.key, nonce: &self.nonce, sequence: self.next.load(Relaxed) }
    }

    /// From now on, the kernel encrypts what rustls sends with these keys.
    pub fn leave_plain(&self) {
        self.plain.store(true, Relaxed);
    }
}

impl fmt::Debug for Transmit {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmit").field("cipher", &self.cipher).field("plain", &self.plain).finish()
    }
}

/// Calls what may change the keys that one session sends with, and gives back the new ones. `plain`: the kernel encrypts what
/// this session sends.
pub fn noting<T>(plain: bool, call: impl FnOnce() -> T) -> (T, Option<Arc<Transmit>>) {
    LATEST.with_borrow_mut(|latest| *latest = None);
    PLAIN.set(plain);
    let result = call();
    PLAIN.set(false);
    (result, LATEST.with_borrow_mut(Option::take))
}

/// The same cryptography; of its suites of TLS 1.3, the keys are noted.
pub fn wrapped(provider: &CryptoProvider) -> CryptoProvider {
    let suites = provider.cipher_suites.iter();
    let noted = |suite: &SupportedCipherSuite| {
        let find = |noted: &&SupportedCipherSuite| noted.suite() == suite.suite();
        NOTED.iter().find(find).copied().unwrap_or(*suite)
    };
    CryptoProvider { cipher_suites: suites.map(noted).collect(), ..provider.clone() }
}

/// The wrapped suites. rustls wants them for as long as the program runs.
static NOTED: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
    let all = maitred_base::pki::provider().cipher_suites.iter();
    all.filter_map(|suite| noted(suite.tls13()?)).collect()
});

fn noted(suite: &'static Tls13CipherSuite) -> Option<SupportedCipherSuite> {
    let cipher = match suite.common.suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Cipher::Aes128Gcm,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Cipher::Aes256Gcm,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Cipher::Chacha20Poly1305,
        _ => return None,
    };
    let aead: &'static Noted = Box::leak(Box::new(Noted { own: suite.aead_alg, cipher }));
    let common = rustls::crypto::CipherSuiteCommon { ..suite.common };
    let suite =
        Tls13CipherSuite { common, hkdf_provider: suite.hkdf_provider, aead_alg: aead, quic: suite.quic };
    Some(SupportedCipherSuite::Tls13(Box::leak(Box::new(suite))))
}

/// rustls' own cipher, whose keys are noted.
struct Noted {
    own: &'static dyn Tls13AeadAlgorithm,
    cipher: Cipher,
}

impl Tls13AeadAlgorithm for Noted {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        let mut nonce = Zeroizing::new([0; NONCE_BYTES]);
        nonce.iter_mut().zip(iv.as_ref()).for_each(|(to, from)| *to = *from);
        let transmit = Arc::new(Transmit {
            cipher: self.cipher,
            key: Zeroizing::new(key.as_ref().into()),
            nonce,
            next: AtomicU64::new(0),
            plain: AtomicBool::new(PLAIN.get()),
        });
        LATEST.with_borrow_mut(|latest| *latest = Some(Arc::clone(&transmit)));
        Box::new(Encrypter { own: self.own.encrypter(key, iv), transmit })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        self.own.decrypter(key, iv)
    }

    fn key_len(&self) -> usize {
        self.own.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.own.extract_keys(key, iv)
    }

    fn fips(&self) -> bool {
        self.own.fips()
    }
}

struct Encrypter {
    own: Box<dyn MessageEncrypter>,
    transmit: Arc<Transmit>,
}

impl MessageEncrypter for Encrypter {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        if !self.transmit.plain.load(Relaxed) {
            self.transmit.next.store(number.saturating_add(1), Relaxed);
            return self.own.encrypt(message, number);
        }
        let mut payload = PrefixedPayload::with_capacity(message.payload.len());
        payload.extend_from_chunks(&message.payload);
        Ok(OutboundOpaqueMessage::new(message.typ, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        self.own.encrypted_payload_len(payload_len)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustls::ServerConfig;
    use rustls::version::TLS13;

    use super::*;
    use maitred_base::pki::files;
    use maitred_testing::{Authority, Session};

    /// A handshake with each suite, and the keys that were noted.
    fn connect(suite: CipherSuite) -> (Session, Arc<Transmit>) {
        let authority = Authority::new("tests");
        let made = authority.sign(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let chain = files::certificates(made.certificate.as_bytes()).unwrap();
        let key = files::private_key(made.key.as_bytes()).unwrap();
        let mut provider = wrapped(maitred_base::pki::provider());
        provider.cipher_suites.retain(|own| own.suite() == suite);
        let mut server = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        server.enable_secret_extraction = true;
        let client = Arc::new(authority.client(&[&TLS13], None));
        let (connected, transmit) =
            noting(false, || maitred_testing::connect(&client, Arc::new(server), "a.test").unwrap());
        (connected, transmit.unwrap())
    }

    /// What the server has to send.
    fn sent(connected: &mut Session) -> Vec<u8> {
        let mut records = Vec::new();
        while connected.server.wants_write() {
            connected.server.write_tls(&mut records).unwrap();
        }
        records
    }

    const SUITES: [(CipherSuite, Cipher); 3] = [
        (CipherSuite::TLS13_AES_128_GCM_SHA256, Cipher::Aes128Gcm),
        (CipherSuite::TLS13_AES_256_GCM_SHA384, Cipher::Aes256Gcm),
        (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, Cipher::Chacha20Poly1305),
    ];

    #[test]
    fn the_keys_and_the_number_of_the_next_record_are_those_of_the_session() {
        for (suite, cipher) in SUITES {
            let (mut connected, transmit) = connect(suite);
            // Tickets have gone already.
            let before = transmit.keys().sequence;
            assert_eq!((transmit.keys().cipher, transmit.keys().key.len()), (cipher, cipher.key_bytes()));
            for _ in 0..3 {
                connected.server.writer().write_all(b"one record").unwrap();
            }
            assert_eq!(transmit.keys().sequence, before + 3);
            drop(sent(&mut connected));
            let (sequence, secrets) = connected.server.dangerous_extract_secrets().unwrap().tx;
            assert_eq!(sequence, before + 3);
            let (key, iv) = match &secrets {
                ConnectionTrafficSecrets::Aes128Gcm { key, iv }
                | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
                | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key.as_ref(), iv.as_ref()),
                _ => panic!("another cipher"),
            };
            assert!(transmit.keys().key == key && transmit.keys().nonce == iv);
        }
    }

    #[test]
    fn records_are_left_as_they_are_once_the_kernel_encrypts() {
        let (mut connected, transmit) = connect(CipherSuite::TLS13_AES_128_GCM_SHA256);
        drop(sent(&mut connected));
        transmit.leave_plain();
        connected.server.writer().write_all(b"content").unwrap();
        connected.server.send_close_notify();
        assert_eq!(sent(&mut connected), b"\x17\x03\x03\x00\x07content\x15\x03\x03\x00\x02\x01\x00");
    }

    #[test]
    fn keys_that_follow_are_noted_and_plain_if_the_first_were() {
        for plain in [false, true] {
            let (mut connected, _) = connect(CipherSuite::TLS13_AES_128_GCM_SHA256);
            let (result, next) = noting(plain, || connected.server.refresh_traffic_keys());
            result.unwrap();
            let next = next.unwrap();
            assert_eq!((next.keys().sequence, next.plain.load(Relaxed)), (0, plain));
        }
        assert!(noting(false, || ()).1.is_none());
    }
}
