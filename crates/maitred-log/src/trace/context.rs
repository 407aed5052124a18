//! `traceparent` (W3C Trace Context, level 1, section 3.2).

use maitred_config::{Continued, Trace};

/// The field, in lower case.
pub const TRACEPARENT: &str = "traceparent";
/// What goes along with it (section 3.3).
pub const TRACESTATE: &str = "tracestate";

/// Bytes of a field of version 00: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const FIELD_BYTES: usize = 55;
/// The flag of a trace that is recorded (section 3.2.2.5.1).
const SAMPLED: u8 = 1;

/// What came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The span whose child the request is; never 0.
    pub span_id: u64,
    /// Whether the one who sent it records the trace.
    pub sampled: bool,
}

/// Where a request stands in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The span of this server; never 0.
    pub span_id: u64,
    /// The span whose child that is; `None` if the trace begins here.
    pub parent_id: Option<u64>,
    /// Whether it is recorded.
    pub sampled: bool,
}

impl Parent {
    /// Reads the field. `None` if it is not well-formed: then the trace begins here (section 3.2.2.3 and 4.3).
    ///
    /// ```
    /// use maitred_log::trace::Parent;
    ///
    /// let parent = Parent::read(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    /// assert_eq!((parent.span_id, parent.sampled), (0xb7ad6b7169203331, true));
    /// ```
    pub fn read(field: &[u8]) -> Option<Parent> {
        let (known, rest) = field.split_at_checked(FIELD_BYTES)?;
        let [b'0'..=b'9' | b'a'..=b'f', b'0'..=b'9' | b'a'..=b'f', b'-', ids @ ..] = known else {
            return None;
        };
        // A later version may have more behind another `-`; ff is none.
        match known.get(..2)? {
            b"ff" => return None,
            b"00" if !rest.is_empty() => return None,
            _ if !rest.is_empty() && !rest.starts_with(b"-") => return None,
            _ => {}
        }
        let (trace_id, ids) = ids.split_at_checked(32)?;
        let [b'-', ids @ ..] = ids else { return None };
        let (span_id, flags) = ids.split_at_checked(16)?;
        let [b'-', flags @ ..] = flags else { return None };
        let trace_id = hexadecimal(trace_id).filter(|id| *id != 0)?;
        let span_id = hexadecimal(span_id).filter(|id| *id != 0)?;
        let sampled = hexadecimal(flags)? as u8 & SAMPLED != 0;
        Some(Parent { trace_id, span_id: span_id as u64, sampled })
    }
}

/// Digits in lower case (section 3.2.1); at most 32.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

impl Context {
    /// Of a request with this id, which is random. `parent`: what came with it; `proxied`: from a trusted proxy.
    pub fn new(settings: &Trace, id: u128, parent: Option<Parent>, proxied: bool) -> Context {
        let parent = parent.filter(|_| continues(settings, proxied));
        let own = (id as u64).max(1);
        // The upper half decides, since the lower one is the span's, which is seen by those that could try ids.
        let chosen = (id >> 64).is_multiple_of(u128::from(settings.sample.max(1)));
        match parent {
            // What a stranger says does not make this server record anything.
            Some(parent) if !proxied => Context::child_of(parent, own, chosen),
            Some(parent) => Context::child_of(parent, own, parent.sampled),
            None => Context { trace_id: id.max(1), span_id: own, parent_id: None, sampled: chosen },
        }
    }

    fn child_of(parent: Parent, span_id: u64, sampled: bool) -> Context {
        Context { trace_id: parent.trace_id, span_id, parent_id: Some(parent.span_id), sampled }
    }

    /// The span of the request to the pool, which is a child of this server's.
    pub(crate) fn pool_span_id(&self) -> u64 {
        // Any other number that is as random, and the same when it is asked for again.
        (self.span_id.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15).max(1)
    }

    /// The field for the pool.
    pub fn field(&self) -> [u8; FIELD_BYTES] {
        let mut field = *b"00-00000000000000000000000000000000-0000000000000000-00";
        digits(self.trace_id, &mut field[3..35]);
        digits(u128::from(self.pool_span_id()), &mut field[36..52]);
        digits(u128::from(self.sampled), &mut field[53..]);
        field
    }
}

/// Whether what came with a request is gone on with.
pub(crate) fn continues(settings: &Trace, proxied: bool) -> bool {
    match settings.parent {
        Continued::Proxies => proxied,
        Continued::Any => true,
        Continued::None => false,
    }
}

fn digits(mut number: u128, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn settings(sample: u32, parent: Continued) -> Trace {
        Trace { sample, parent, otlp: None, service: "s".to_owned() }
    }

    #[test]
    fn only_what_is_well_formed_is_read() {
        let parent = Parent::read(GOOD.as_bytes()).unwrap();
        let id = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
        assert_eq!(parent, Parent { trace_id: id, span_id: 0xb7ad_6b71_6920_3331, sampled: true });
        let flags =
            |flags: &str| Parent::read(GOOD.replace("-01", flags).as_bytes()).map(|parent| parent.sampled);
        assert_eq!(
            ["-00", "-02", "-03", "-ff"].map(flags),
            [Some(false), Some(false), Some(true), Some(true)]
        );
        assert_eq!(["-0", "-0A", "-0g", "_01", "-01-", "-01x"].map(flags), [None; 6]);
        let version = |version: &str| Parent::read(GOOD.replacen("00", version, 1).as_bytes()).is_some();
        assert_eq!(["01", "cc", "ff", "0A", "g0"].map(version), [true, true, false, false, false]);
        assert!(Parent::read(format!("01{}-more", &GOOD[2..]).as_bytes()).is_some());
        assert!(Parent::read(format!("01{}more", &GOOD[2..]).as_bytes()).is_none());
        for wrong in [GOOD.replace("b7ad6b7169203331", "0000000000000000"), GOOD.to_uppercase()] {
            assert_eq!(Parent::read(wrong.as_bytes()), None, "{wrong}");
        }
        let none = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(Parent::read(GOOD.replace(none, &"0".repeat(32)).as_bytes()), None);
    }

    #[test]
    fn a_trace_is_continued_for_those_who_may_say_so() {
        let parent = Parent::read(GOOD.as_bytes());
        let id = 7 << 64 | 9;
        let of = |whose, proxied| Context::new(&settings(2, whose), id, parent, proxied);
        let begun = Context { trace_id: id, span_id: 9, parent_id: None, sampled: false };
        assert_eq!(of(Continued::Proxies, false), begun);
        assert_eq!(of(Continued::None, true), begun);
        let continued = of(Continued::Proxies, true);
        assert_eq!((continued.trace_id, continued.sampled), (parent.unwrap().trace_id, true));
        assert_eq!(continued.parent_id, Some(parent.unwrap().span_id));
        // A stranger's trace goes on, but whether it is recorded is decided here.
        assert_eq!(of(Continued::Any, false), Context { sampled: false, ..continued });
        let every = Context::new(&settings(1, Continued::Any), id, parent, false);
        assert!(every.sampled);
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(id: u128, sample in 1_u32..5, bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            let own = Context::new(&settings(sample, Continued::Any), id, Parent::read(&bytes), false);
            let read = Parent::read(&own.field()).unwrap();
            prop_assert_eq!(read, Parent { trace_id: own.trace_id, span_id: own.pool_span_id(), sampled: own.sampled });
            prop_assert!(own.span_id != 0 && own.pool_span_id() != own.span_id);
        }

        #[test]
        fn about_one_of_so_many_is_recorded(start: u64) {
            let of = |step: u64| {
                let high = u128::from(start.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                Context::new(&settings(4, Continued::None), high << 64 | 1, None, false).sampled
            };
            let recorded = (0..4000).filter(|step| of(*step)).count();
            prop_assert!((700..1300).contains(&recorded), "{recorded}");
        }
    }
}
