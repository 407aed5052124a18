//! The messages of `grpc.health.v1` (the gRPC health checking protocol), which have one field each, and the frame that a message
//! of gRPC has. Pure.

/// Where the question goes.
pub(crate) const PATH: &str = "/grpc.health.v1.Health/Check";
/// Bytes of an answer that are read: it takes seven.
pub(crate) const ANSWER_BYTES_MAX: usize = 1024;
/// `HealthCheckResponse.ServingStatus.SERVING`
const SERVING: u64 = 1;
/// `SERVICE_UNKNOWN` is 3: there are four.
const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// `HealthCheckRequest`, in its frame: no compression, the length in four bytes, and `service` as field 1. The service has at
/// most [`maitred_config::Health::SERVICE_BYTES_MAX`] bytes.
pub(crate) fn question(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1 is of the type LEN.
        message.push(1 << 3 | 2);
        varint(service.len() as u64, &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.append(&mut message);
    framed
}

/// Whether an answer says that the service serves.
///
/// # Errors
/// What it says instead.
pub(crate) fn read(answer: &[u8]) -> Result<(), String> {
    let status = status(answer).ok_or("its answer is no HealthCheckResponse")?;
    match usize::try_from(status).ok().and_then(|status| STATES.get(status)) {
        _ if status == SERVING => Ok(()),
        Some(name) => Err(format!("it says {name}")),
        None => Err(format!("it says {status}")),
    }
}

/// `status`, field 1 of a framed `HealthCheckResponse`; 0 if it is not there, as protocol buffers have it.
fn status(answer: &[u8]) -> Option<u64> {
    let (head, message) = answer.split_at_checked(5)?;
    let [0, length @ ..] = head else { return None };
    let length = u32::from_be_bytes(length.try_into().ok()?);
    let mut rest = message.get(..usize::try_from(length).ok()?)?;
    let mut status = 0;
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        match (key >> 3, key & 7) {
            (1, 0) => status = take_varint(&mut rest)?,
            (_, 0) => drop(take_varint(&mut rest)?),
            (_, 1) => rest = rest.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            (_, 5) => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_question_names_its_service() {
        assert_eq!(question(""), [0, 0, 0, 0, 0]);
        assert_eq!(question("shop"), [&[0, 0, 0, 0, 6, 10, 4][..], b"shop"].concat());
        let long = question(&"s".repeat(255));
        assert_eq!(long[..8], [0, 0, 0, 1, 2, 10, 0xff, 1]);
    }

    #[test]
    fn an_answer_says_whether_it_serves() {
        let framed = |message: &[u8]| [&[0, 0, 0, 0, message.len() as u8][..], message].concat();
        assert_eq!(read(&framed(&[8, 1])), Ok(()));
        // Fields that are not known are passed over.
        assert_eq!(read(&framed(&[0x12, 2, 7, 7, 0x18, 0x80, 1, 8, 1, 0x25, 0, 0, 0, 0])), Ok(()));
        for (message, said) in
            [(&[][..], "UNKNOWN"), (&[8, 2], "NOT_SERVING"), (&[8, 3], "SERVICE_UNKNOWN"), (&[8, 9], "9")]
        {
            assert_eq!(read(&framed(message)), Err(format!("it says {said}")));
        }
        for wrong in [
            &[][..],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 2, 8, 1],
            &[0, 0, 0, 0, 3, 8, 1],
            &[0, 0, 0, 0, 2, 8, 0x81],
        ] {
            assert!(read(wrong).is_err_and(|why| why.contains("no HealthCheckResponse")), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(answer in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&answer);
        }
    }
}
