//! QPACK (RFC 9204) at the other end of a pipe, for the differential test with another implementation
//! (`tests/qpack_beside_pylsqpack.py`), and to look at sections by hand. One command a line, one answer a line; bytes are in
//! hexadecimal.
//!
//! | command | answer |
//! |---|---|
//! | `encoder BYTES`: of the peer's encoder stream | `ok BYTES`: for the decoder stream |
//! | `section STREAM BYTES` | `fields BYTES NAME:VALUE …`, the first for the decoder stream; or `blocked` |
//! | `cancel STREAM` | `ok BYTES` |
//! | `decoder BYTES`: of the peer's decoder stream | `ok` |
//! | `encode NAME:VALUE …` | `ok BYTES`: a section |
//!
//! An error is `error CODE REASON`. Arguments: bytes of the dynamic table, and streams that may be blocked.
//!
//! ```text
//! $ echo 'section 0 0000d9' | cargo run --example qpack -- 0 0
//! fields  3a737461747573:323030
//! ```

use std::io::{BufRead, Write};

use maitred_http::h3::qpack::{BOUNDS, Decoder, DecoderStream, Encoder, Outcome};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        || arguments.next().ok_or("arguments: bytes of the table, and streams that may be blocked");
    let mut peer = Peer {
        decoder: Decoder::new(number()?.parse()?, number()?.parse()?),
        decoder_stream: DecoderStream::default(),
    };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", peer.answer(&line?)?)?;
        out.flush()?;
    }
    Ok(())
}

struct Peer {
    decoder: Decoder,
    decoder_stream: DecoderStream,
}

impl Peer {
    /// The answer to one line; an error if the line is no command.
    fn answer(&mut self, line: &str) -> Result<String, String> {
        let mut words = line.split(' ');
        let (command, mut rest) = (words.next().unwrap_or_default(), words);
        let mut word = || rest.next().ok_or_else(|| format!("{line}: something is missing"));
        match command {
            "encoder" => {
                let taken = self.decoder.encoder_stream(&bytes(word()?)?);
                Ok(taken.map_or_else(|error| failed(&error), |()| format!("ok {}", self.out())))
            }
            "section" => {
                let stream = word()?.parse().map_err(|_| format!("{line}: no number of a stream"))?;
                Ok(self.section(stream, &bytes(word()?)?))
            }
            "cancel" => {
                self.decoder.cancel(word()?.parse().map_err(|_| format!("{line}: no number of a stream"))?);
                Ok(format!("ok {}", self.out()))
            }
            "decoder" => {
                let taken = self.decoder_stream.read(&bytes(word()?)?);
                Ok(taken.map_or_else(|error| failed(&error), |()| "ok".to_owned()))
            }
            "encode" => {
                let mut section = Vec::new();
                Encoder::begin(&mut section);
                for field in line.split(' ').skip(1) {
                    let (name, value) = field.split_once(':').ok_or_else(|| format!("{field}: no field"))?;
                    Encoder::field(&bytes(name)?, &bytes(value)?, &mut section);
                }
                Ok(format!("ok {}", hexadecimal(&section)))
            }
            _ => Err(format!("{command}: no such command")),
        }
    }

    fn section(&mut self, stream: u64, section: &[u8]) -> String {
        let mut fields = String::new();
        let outcome = self.decoder.decode(stream, section, BOUNDS, |name, value| {
            fields += &format!(" {}:{}", hexadecimal(name), hexadecimal(value));
        });
        match outcome {
            Ok(Outcome::Blocked) => "blocked".to_owned(),
            Ok(Outcome::Decoded(_)) => format!("fields {}{fields}", self.out()),
            Err(error) => failed(&error),
        }
    }

    fn out(&mut self) -> String {
        let mut out = Vec::new();
        self.decoder.take_out(&mut out);
        hexadecimal(&out)
    }
}

fn failed(error: &maitred_http::h3::Error) -> String {
    format!("error {:#x} {}", error.code.number(), error.reason)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).map_err(|_| format!("{text}: not hexadecimal"))?;
        u8::from_str_radix(pair, 16).map_err(|_| format!("{text}: not hexadecimal"))
    });
    pairs.collect()
}
