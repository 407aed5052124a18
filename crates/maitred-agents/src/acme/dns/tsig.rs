//! Signatures of messages with a shared key (TSIG, RFC 8945). Pure.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::message::{last_record, put_name};
use maitred_config::TsigAlgorithm;

/// The type of the record that has the signature.
const TSIG: u16 = 250;
/// The class of that record.
const ANY: u16 = 255;
/// How many seconds the clocks may differ (RFC 8945 section 10).
const FUDGE: u16 = 300;

/// A key that a name server knows, too. The key is not shown.
pub(crate) struct Key {
    name: String,
    algorithm: TsigAlgorithm,
    secret: hmac::Key,
}

/// The signature of a message, which that of its answer includes.
pub(crate) struct Mac(Vec<u8>);

/// What a signature's record says (RFC 8945 section 4.2).
struct Signature<'a> {
    /// When it was signed: six bytes of Unix time.
    time: &'a [u8],
    fudge: u16,
    mac: &'a [u8],
    original_id: [u8; 2],
    error: u16,
    other: &'a [u8],
}

impl Key {
    /// A key by its parts.
    ///
    /// # Errors
    /// A text, when the secret is not in base64.
    pub(crate) fn new(name: &str, algorithm: TsigAlgorithm, secret: &str) -> Result<Key, String> {
        let secret = BASE64_STANDARD.decode(secret).ok().filter(|secret| !secret.is_empty());
        let secret = secret.ok_or("the secret is not in base64")?;
        let kind = match algorithm {
            TsigAlgorithm::HmacSha256 => hmac::HMAC_SHA256,
            TsigAlgorithm::HmacSha384 => hmac::HMAC_SHA384,
            TsigAlgorithm::HmacSha512 => hmac::HMAC_SHA512,
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_owned();
        put_name(&mut Vec::new(), &name)?;
        Ok(Key { name, algorithm, secret: hmac::Key::new(kind, &secret) })
    }

    /// The key in a file: a clause of BIND's, or a secret alone, which is then for this name and algorithm.
    ///
    /// # Errors
    /// A text about what is wrong with it.
    pub(crate) fn read(text: &str, name: Option<&str>, algorithm: TsigAlgorithm) -> Result<Key, String> {
        let words = words(text);
        let mut words = words.iter().map(String::as_str);
        match words.next() {
            Some("key") => {}
            Some(secret) if words.next().is_none() => {
                let name = name.ok_or("it holds a secret alone: set `key_name`")?;
                return Key::new(name, algorithm, secret);
            }
            _ => return Err("it holds neither a `key` clause nor a secret in base64".to_owned()),
        }
        let name = words.next().ok_or("the key has no name")?.to_owned();
        let (mut found, mut secret) = (None, None);
        while let Some(word) = words.next() {
            match word {
                "algorithm" => found = words.next(),
                "secret" => secret = words.next(),
                _ => {}
            }
        }
        let found = found.unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        let algorithm = TsigAlgorithm::named(&found).ok_or_else(|| {
            format!("its algorithm \"{found}\" is none of {}", TsigAlgorithm::NAMES.join(", "))
        })?;
        Key::new(&name, algorithm, secret.ok_or("the key has no `secret`")?)
    }

    /// Signs a message, at this time in seconds of Unix time.
    pub(crate) fn sign(&self, message: &mut Vec<u8>, now: u64) -> Mac {
        let time = now.to_be_bytes();
        let time = time.get(2..).unwrap_or_default();
        let id = message.get(..2).and_then(|id| id.try_into().ok()).unwrap_or_default();
        let signature = Signature { time, fudge: FUDGE, mac: &[], original_id: id, error: 0, other: &[] };
        let mac = self.mac(&[message, &self.variables(&signature)]).as_ref().to_vec();
        let mut data = Vec::new();
        self.put_algorithm(&mut data);
        data.extend(time);
        data.extend(FUDGE.to_be_bytes());
        data.extend((mac.len() as u16).to_be_bytes());
        data.extend(&mac);
        data.extend(id);
        data.extend([0; 4]);
        self.put_name(message);
        for number in [TSIG, ANY, 0, 0, data.len() as u16] {
            message.extend(number.to_be_bytes());
        }
        message.extend(data);
        add_to_additional(message, 1);
        Mac(mac)
    }

    /// Checks the signature of the answer to a message that had this one.
    ///
    /// # Errors
    /// A text, when there is none, or it is not right.
    pub(crate) fn check(&self, answer: &[u8], request: &Mac, now: u64) -> Result<(), String> {
        let unsigned = || "the answer is not signed".to_owned();
        let (begin, data) = last_record(answer, TSIG).ok_or_else(unsigned)?;
        let signature = self.parse(data).ok_or("the answer is signed with another algorithm")?;
        if signature.mac.is_empty() {
            return Err(match signature.error {
                16 => "BADSIG: the name server has another secret for the key".to_owned(),
                17 => format!("BADKEY: the name server does not know the key \"{}\"", self.name),
                _ => unsigned(),
            });
        }
        let mut message = answer.get(..begin).unwrap_or_default().to_vec();
        add_to_additional(&mut message, -1);
        message.iter_mut().zip(signature.original_id).for_each(|(to, byte)| *to = byte);
        let length = (request.0.len() as u16).to_be_bytes();
        let parts = [&length, request.0.as_slice(), &message, &self.variables(&signature)].concat();
        hmac::verify(&self.secret, &parts, signature.mac).map_err(|_| "the answer is signed wrongly")?;
        let seconds = signature.time.iter().fold(0_u64, |seconds, byte| seconds << 8 | u64::from(*byte));
        if signature.error == 18 || seconds.abs_diff(now) > u64::from(signature.fudge.min(FUDGE)) {
            return Err("BADTIME: the clocks of the name server and of this machine differ".to_owned());
        }
        Ok(())
    }

    fn mac(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.secret);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }

    /// What is signed besides the message (RFC 8945 section 4.3.3).
    fn variables(&self, signature: &Signature<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put_name(&mut bytes);
        bytes.extend(ANY.to_be_bytes());
        bytes.extend([0; 4]);
        self.put_algorithm(&mut bytes);
        bytes.extend(signature.time);
        for number in [signature.fudge, signature.error, signature.other.len() as u16] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(signature.other);
        bytes
    }

    fn parse<'a>(&self, data: &'a [u8]) -> Option<Signature<'a>> {
        let mut algorithm = Vec::new();
        self.put_algorithm(&mut algorithm);
        let (found, rest) = data.split_at_checked(algorithm.len())?;
        let (time, rest) = rest.split_at_checked(6)?;
        let (fudge, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (mac, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let (original_id, rest) = rest.split_first_chunk()?;
        let (error, rest) = rest.split_first_chunk()?;
        let (length, other) = rest.split_first_chunk()?;
        let fits =
            found.eq_ignore_ascii_case(&algorithm) && other.len() == usize::from(u16::from_be_bytes(*length));
        let [fudge, error] = [*fudge, *error].map(u16::from_be_bytes);
        fits.then_some(Signature { time, fudge, mac, original_id: *original_id, error, other })
    }

    fn put_name(&self, to: &mut Vec<u8>) {
        // The name was checked when the key was made.
        let _ = put_name(to, &self.name);
    }

    fn put_algorithm(&self, to: &mut Vec<u8>) {
        let _ = put_name(
            to,
            match self.algorithm {
                TsigAlgorithm::HmacSha256 => "hmac-sha256",
                TsigAlgorithm::HmacSha384 => "hmac-sha384",
                TsigAlgorithm::HmacSha512 => "hmac-sha512",
            },
        );
    }
}

/// Changes how many additional records a message says that it has.
fn add_to_additional(message: &mut [u8], more: i16) {
    if let Some(count) = message.get_mut(10..12).and_then(|bytes| <&mut [u8; 2]>::try_from(bytes).ok()) {
        *count = u16::from_be_bytes(*count).wrapping_add_signed(more).to_be_bytes();
    }
}

/// The words of a key file, without comments (`#`, `//`), quotes, braces and semicolons.
fn words(text: &str) -> Vec<String> {
    let without = |line: &'_ str| {
        let line = line.split('#').next().unwrap_or_default();
        // A secret may have `//` in it, a comment begins a word.
        let comment = line.trim_start().starts_with("//").then_some(0).or_else(|| line.find(" //"));
        line.get(..comment.unwrap_or(line.len())).unwrap_or_default().to_owned()
    };
    let apart = |char: char| char.is_whitespace() || "\"{};".contains(char);
    let lines: Vec<String> = text.lines().map(without).collect();
    let words = lines.iter().flat_map(|line| line.split(apart));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::message::{self, Change};
    use super::*;

    const SECRET: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQ=";

    fn key(secret: &str) -> Key {
        Key::new("maitred.", TsigAlgorithm::HmacSha256, secret).unwrap()
    }

    /// An answer as a server would sign it.
    fn signed_answer(key: &Key, request: &Mac, now: u64) -> Vec<u8> {
        let mut answer = b"\0\x07\xa8\0\0\0\0\0\0\0\0\0".to_vec();
        let time = now.to_be_bytes();
        let signature =
            Signature { time: &time[2..], fudge: FUDGE, mac: &[], original_id: [0, 7], error: 0, other: &[] };
        let length = (request.0.len() as u16).to_be_bytes();
        let mac = key.mac(&[&length, &request.0, &answer, &key.variables(&signature)]);
        key.sign(&mut answer, now);
        let place = answer.len() - 6 - mac.as_ref().len();
        answer[place..place + mac.as_ref().len()].copy_from_slice(mac.as_ref());
        answer
    }

    #[test]
    fn an_answer_is_taken_only_if_it_is_signed_for_the_request() {
        let (right, wrong) = (key(SECRET), key("bm90IHRoaXMgb25l"));
        let mut request = message::update(7, "example", "a.example", "text", Change::Add(60)).unwrap();
        let unsigned = request.len();
        let mac = right.sign(&mut request, 1_000_000);
        assert_eq!(last_record(&request, TSIG).unwrap().0, unsigned);
        let answer = signed_answer(&right, &mac, 1_000_010);
        assert_eq!(right.check(&answer, &mac, 1_000_020), Ok(()));
        assert!(wrong.check(&answer, &mac, 1_000_020).unwrap_err().contains("wrongly"));
        assert!(right.check(&answer, &Mac(vec![1; 32]), 1_000_020).unwrap_err().contains("wrongly"));
        assert!(right.check(&answer, &mac, 1_000_020 + 400).unwrap_err().contains("BADTIME"));
        assert!(right.check(b"\0\x07\xa8\0\0\0\0\0\0\0\0\0", &mac, 0).unwrap_err().contains("not signed"));
        for at in 0..answer.len() {
            let mut altered = answer.clone();
            altered[at] ^= 0x11;
            // The answer's own number is not signed: the one of the request is, and that is compared elsewhere (RFC 8945
            // section 5.3).
            let same = at < 2 || right.check(&altered, &mac, 1_000_020).is_err();
            assert!(same || is_not_signed(&answer, at), "byte {at}");
        }
    }

    /// The type, class and length of the record that has the signature, which are read but not signed.
    fn is_not_signed(answer: &[u8], at: usize) -> bool {
        let begin = last_record(answer, TSIG).unwrap().0;
        (begin..begin + "\x07maitred\0".len() + 10).contains(&at)
    }

    #[test]
    fn a_signature_is_the_one_that_rfc_8945_defines() {
        // Computed apart from this code: Python's hmac over the message and the variables of section 4.3.3.
        let mut message = b"\0\x07\x28\0\0\0\0\0\0\0\0\0".to_vec();
        let mac = key(SECRET).sign(&mut message, 1_700_000_000);
        let hex: String = mac.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "bc34a8a5bb0fbcc96e3ba1914fa403b2ffffe4f5dc61bfc31b49d7314d876cb4");
    }

    #[test]
    fn keys_are_read_as_bind_writes_them_and_alone() {
        let clause = format!(
            "# a comment\nkey \"Update.Example\" {{ // another\n\talgorithm hmac-sha512;\n\tsecret \"{SECRET}\";\n}};\n"
        );
        let read = |text: &str, name| Key::read(text, name, TsigAlgorithm::HmacSha256);
        let found = read(&clause, Some("other")).unwrap();
        assert_eq!((found.name.as_str(), found.algorithm), ("Update.Example", TsigAlgorithm::HmacSha512));
        let found = read(&format!("{SECRET}\n"), Some("k")).unwrap();
        assert_eq!((found.name.as_str(), found.algorithm), ("k", TsigAlgorithm::HmacSha256));
        for (text, name, why) in [
            (SECRET, None, "key_name"),
            ("", Some("k"), "neither"),
            ("two words", Some("k"), "neither"),
            ("%%%", Some("k"), "base64"),
            ("key a { algorithm hmac-md5; secret \"QQ==\"; };", None, "hmac-md5"),
            ("key a { algorithm hmac-sha256; };", None, "no `secret`"),
            ("key", None, "no name"),
        ] {
            let error = read(text, name).map(|_| ()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
