//! Exchanges with name servers, over TCP (RFC 7766), each bounded.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::message::{self, Answer, Change, Data, Kind};
use super::tsig::Key;
use maitred_base::unix_time;
use maitred_config::DnsUpdate;

/// How long one exchange may take, from the connection to the last byte.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest file of a key; they have some hundred bytes.
const KEY_BYTES_MAX: u64 = 64 * 1024;
/// How long to wait between two questions to a server whether it shows a record: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Adds or removes a text, where the configuration says.
///
/// # Errors
/// A text.
pub(super) async fn update(config: &DnsUpdate, name: &str, text: &str, change: Change) -> Result<(), String> {
    let key = key(config)?;
    let zone = match &config.zone {
        Some(zone) => zone.clone(),
        None => zone_of(config.server, name).await?,
    };
    let id = number();
    let mut request = message::update(id, &zone, name, text, change)?;
    let mac = key.sign(&mut request, unix_time::secs());
    let failed = |why: String| format!("update of {zone} at {}: {why}", config.server);
    let bytes = exchange(config.server, &request).await.map_err(failed)?;
    let answer = message::answer(&bytes, id).map_err(failed)?;
    let signed = key.check(&bytes, &mac, unix_time::secs());
    match (answer.code, signed) {
        (0, signed) => signed.map_err(failed),
        // An error need not be signed (RFC 8945 section 5.3.2); why it is not says more, if the key is the reason.
        (9, Err(why)) if why.starts_with("BAD") => Err(failed(why)),
        (code, _) => Err(failed(message::meaning(code).to_owned())),
    }
}

/// Waits until a server shows a text, at most until `end`.
///
/// # Errors
/// A text, when it does not.
pub(super) async fn wait_for(server: SocketAddr, name: &str, text: &str, end: Instant) -> Result<(), String> {
    let (mut delay, longest) = AGAIN;
    loop {
        let why = match ask(server, name, Kind::Txt).await {
            Ok(answer) if shows(&answer, text) => return Ok(()),
            Ok(Answer { code: 0 | 3, .. }) => "it is not there yet".to_owned(),
            Ok(answer) => message::meaning(answer.code).to_owned(),
            Err(why) => why,
        };
        if Instant::now() + delay > end {
            return Err(format!("the name server {server} does not show the record {name}: {why}"));
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(longest);
    }
}

fn shows(answer: &Answer, text: &str) -> bool {
    answer.code == 0 && answer.records.iter().any(|record| record.data == Data::Txt(text.into()))
}

/// The zone that a name is in: the server says it in any case, as a part of its answer that the name is not there.
async fn zone_of(server: SocketAddr, name: &str) -> Result<String, String> {
    let answer = ask(server, name, Kind::Soa).await?;
    let found = answer.records.into_iter().find(|record| {
        let within = name
            .strip_suffix(record.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        record.data == Data::Soa && within
    });
    found.map(|record| record.name).ok_or_else(|| {
        let code = if answer.code == 0 { "" } else { message::meaning(answer.code) };
        format!("the name server {server} does not say which zone {name} is in: set `zone` {code}")
    })
}

async fn ask(server: SocketAddr, name: &str, kind: Kind) -> Result<Answer, String> {
    let id = number();
    let bytes = exchange(server, &message::question(id, name, kind)?).await?;
    message::answer(&bytes, id)
}

/// Sends a message, and gives back what is answered.
async fn exchange(server: SocketAddr, message: &[u8]) -> Result<Vec<u8>, String> {
    let whole = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(message.len()).map_err(std::io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
        let length = stream.read_u16().await?;
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match tokio::time::timeout(EXCHANGE_TIMEOUT, whole).await {
        Ok(answer) => answer.map_err(|error| format!("name server {server}: {error}")),
        Err(_) => Err(format!("name server {server}: no answer within {} s", EXCHANGE_TIMEOUT.as_secs())),
    }
}

/// The number of a message: over TCP nothing depends on its being hard to guess.
fn number() -> u16 {
    let mut bytes = [0; 2];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u16::from_ne_bytes(bytes)
}

fn key(config: &DnsUpdate) -> Result<Key, String> {
    let wrong = |why: String| format!("key_file: {}: {why}", config.key_file.display());
    let text = read(&config.key_file).map_err(|error| wrong(error.to_string()))?;
    Key::read(&text, config.key_name.as_deref(), config.algorithm).map_err(wrong)
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(KEY_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
