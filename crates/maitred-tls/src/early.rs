//! Early data that is refused, and has to be skipped (RFC 8446 section 4.2.10).
//!
//! rustls has one number (`max_early_data_size`) for what tickets announce and for what it skips. But it tries each record that
//! it skips again whenever something comes behind it, and counts it each time: after a reload, where no session is known any
//! more, a client that had sent half of what was announced lost its connection. So the number is larger here than all that such a
//! count can come to, and tickets say another one: the ciphers of these sessions are rustls' own, and change it in what they
//! encrypt. What rustls keeps of records that it skips is 18 KB at most, whatever the number.
//!
//! `docs/upstream-notes.md` has the change to rustls with which this can go.

use std::sync::{Mutex, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{
    AeadKey, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundOpaqueMessage,
    OutboundPlainMessage, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, SupportedCipherSuite, Tls13CipherSuite};

/// Bytes of early data that are taken, as tickets say: a request head of the usual size, and nothing that is long.
pub const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

/// What rustls may count of records that it skips: 18 KB that come in pieces of twelve bytes.
pub(crate) const SKIPPED_BYTES_MAX: u32 = 16 << 20;

/// A message of TLS 1.3 (RFC 8446 section 4), and an extension of it (section 4.2).
const NEW_SESSION_TICKET: u8 = 4;
const EARLY_DATA: [u8; 2] = [0, 42];

/// Suites that were wrapped: one of each, as rustls wants them for as long as the program runs.
static WRAPPED: Mutex<Vec<(&'static Tls13CipherSuite, SupportedCipherSuite)>> = Mutex::new(Vec::new());

/// The same cryptography; with its suites of TLS 1.3, tickets say [`EARLY_DATA_BYTES_MAX`].
pub(crate) fn announcing(provider: &CryptoProvider) -> CryptoProvider {
    let suites = provider.cipher_suites.iter();
    let wrap = |suite: &SupportedCipherSuite| suite.tls13().map_or(*suite, wrapped);
    CryptoProvider { cipher_suites: suites.map(wrap).collect(), ..provider.clone() }
}

fn wrapped(own: &'static Tls13CipherSuite) -> SupportedCipherSuite {
    let mut all = WRAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, suite)) = all.iter().find(|(known, _)| std::ptr::eq(*known, own)) {
        return *suite;
    }
    let common = rustls::crypto::CipherSuiteCommon { ..own.common };
    let aead: &'static Announcing = Box::leak(Box::new(Announcing { own: own.aead_alg }));
    let suite = Tls13CipherSuite { common, hkdf_provider: own.hkdf_provider, aead_alg: aead, quic: own.quic };
    let suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)));
    all.push((own, suite));
    suite
}

/// rustls' own cipher, or a wrapped one.
struct Announcing {
    own: &'static dyn Tls13AeadAlgorithm,
}

impl Tls13AeadAlgorithm for Announcing {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Encrypter { own: self.own.encrypter(key, iv) })
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
}

impl MessageEncrypter for Encrypter {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        if message.typ != ContentType::Handshake {
            return self.own.encrypt(message, number);
        }
        let mut payload = message.payload.to_vec();
        announce(&mut payload);
        let payload = OutboundChunks::Single(&payload);
        self.own.encrypt(OutboundPlainMessage { payload, ..message }, number)
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        self.own.encrypted_payload_len(payload_len)
    }
}

/// Changes the number in the tickets of a record. Anything else stays as it is, also what begins in another record.
fn announce(mut messages: &mut [u8]) {
    while let Some((head, rest)) = messages.split_first_chunk_mut::<4>() {
        let [kind, length @ ..] = *head;
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let Some((message, next)) = rest.split_at_mut_checked(length) else { return };
        if kind == NEW_SESSION_TICKET
            && let Some(place) = early_data_size(message)
            && *place == SKIPPED_BYTES_MAX.to_be_bytes()
        {
            *place = EARLY_DATA_BYTES_MAX.to_be_bytes();
        }
        messages = next;
    }
}

/// Where a ticket says how much early data may come with it (RFC 8446 section 4.6.1).
fn early_data_size(ticket: &mut [u8]) -> Option<&mut [u8; 4]> {
    // Behind the lifetime and what is added to the age stand a nonce and the ticket itself.
    let (length, rest) = ticket.get_mut(8..)?.split_first_mut()?;
    let (length, rest) = rest.get_mut(usize::from(*length)..)?.split_first_chunk_mut::<2>()?;
    let (_, mut rest) =
        rest.get_mut(usize::from(u16::from_be_bytes(*length))..)?.split_first_chunk_mut::<2>()?;
    loop {
        let ([kind @ .., high, low], behind) = rest.split_first_chunk_mut::<4>()?;
        let (kind, length) = ([kind[0], kind[1]], usize::from(u16::from_be_bytes([*high, *low])));
        let (value, next) = behind.split_at_mut_checked(length)?;
        if kind == EARLY_DATA {
            return value.try_into().ok();
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket with a nonce, an unknown extension, and this number.
    fn ticket(number: u32) -> Vec<u8> {
        let mut body =
            vec![0, 0, 1, 0, 9, 9, 9, 9, 2, 7, 7, 0, 3, 4, 4, 4, 0, 13, 0x5a, 0x5a, 0, 1, 0, 0, 42, 0, 4];
        body.extend_from_slice(&number.to_be_bytes());
        let mut message = vec![NEW_SESSION_TICKET, 0, 0, body.len() as u8];
        message.extend_from_slice(&body);
        message
    }

    #[test]
    fn tickets_say_what_is_taken() {
        let mut two = [ticket(SKIPPED_BYTES_MAX), ticket(SKIPPED_BYTES_MAX)].concat();
        announce(&mut two);
        assert_eq!(two, [ticket(EARLY_DATA_BYTES_MAX), ticket(EARLY_DATA_BYTES_MAX)].concat());
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        let whole = ticket(SKIPPED_BYTES_MAX);
        let other = [[20, 0, 0, 2, 4, 0].to_vec(), ticket(7), vec![4, 0, 0]].concat();
        let parts = (0..whole.len()).flat_map(|at| [whole[..at].to_vec(), whole[at + 1..].to_vec()]);
        for bytes in parts.chain([other, vec![4; 300]]) {
            let mut changed = bytes.clone();
            announce(&mut changed);
            assert_eq!(changed, bytes);
        }
    }
}
