use proptest::prelude::*;

use super::decoding::{decoded, readable};
use super::*;

/// Text that repeats itself, here and there, as what applications send.
fn text(bytes: usize) -> Vec<u8> {
    let mut seed = 7_u32;
    let mut text = Vec::new();
    while text.len() < bytes {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let item =
            format!("{{\"id\":{},\"name\":\"item {}\",\"price\":{}}},", seed >> 20, seed >> 28, seed >> 16);
        text.extend_from_slice(item.as_bytes());
    }
    text.truncate(bytes);
    text
}

fn taken(coder: &mut Coder) -> Vec<u8> {
    std::mem::take(coder.made().unwrap())
}

const STREAMED: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

#[test]
fn whole_content_is_coded_and_read_again() {
    let encoders = Encoders::new(1);
    for coding in STREAMED {
        for bytes in [0, 1, 10_000, 1_000_000] {
            for (length, level) in [(None, 1), (Some(bytes as u64), 3), (None, 9)] {
                let content = text(bytes);
                let mut coder = encoders.begin(coding, level, length).unwrap();
                coder.write(&content);
                coder.finish();
                let made = taken(&mut coder);
                assert_eq!(decoded(coding, &made), content);
                assert!(bytes < 10_000 || made.len() < bytes / 3, "{coding:?}: {} of {bytes}", made.len());
            }
        }
    }
}

#[test]
fn there_are_no_more_encoders_than_said_and_they_come_back() {
    let encoders = Encoders::new(2);
    for coding in STREAMED {
        let mut first = encoders.begin(coding, 1, None).unwrap();
        let second = encoders.begin(coding, 1, None);
        assert!(second.is_some() && encoders.begin(coding, 1, None).is_none());
        assert_eq!(encoders.counts().in_use, 2);
        first.write(b"never finished");
        drop(second);
        assert_eq!(encoders.counts().in_use, 1);
        first.finish();
        assert_eq!(encoders.counts().in_use, 0, "it is free as soon as its content has ended");
        let made = taken(&mut first);
        assert_eq!(decoded(coding, &made), b"never finished");
        drop(first);
        assert_eq!(encoders.counts().in_use, 0, "once");
    }
    assert!(encoders.begin(Coding::Brotli, 1, None).is_none());
    let counts = encoders.counts();
    assert_eq!((counts.zstd, counts.gzip, counts.refused), (2, 2, 2));
    assert_eq!(counts.bytes_in, 2 * b"never finished".len() as u64);
    assert!(counts.bytes_out > counts.bytes_in, "so little is not worth it: {counts:?}");
}

#[test]
fn an_encoder_that_was_left_in_the_middle_begins_anew() {
    let encoders = Encoders::new(1);
    for coding in STREAMED {
        for level in [1, 9, 1] {
            let mut left = encoders.begin(coding, level, Some(1 << 20)).unwrap();
            left.write(&text(100_000));
            drop(left);
            let mut coder = encoders.begin(coding, level, None).unwrap();
            coder.write(b"anew");
            coder.finish();
            let made = taken(&mut coder);
            assert_eq!(decoded(coding, &made), b"anew");
        }
    }
}

#[test]
fn only_a_few_encoders_are_kept_when_they_are_not_in_use() {
    let encoders = Encoders::new(100);
    for coding in STREAMED {
        let mut all: Vec<_> = (0..100).map(|_| encoders.begin(coding, 3, None).unwrap()).collect();
        all.iter_mut().for_each(Coder::finish);
    }
    let (zstd, gzip) = (encoders.shared.zstd.borrow().len(), encoders.shared.gzip.borrow().len());
    assert_eq!((zstd, gzip, encoders.counts().in_use), (IDLE_MAX, IDLE_MAX, 0));
}

/// As the reason of the limit `compress_encoders_max` says.
#[test]
fn an_encoder_takes_less_than_two_mebibytes() {
    for (level, length) in [(1, None), (3, None), (9, None), (9, Some(1 << 30))] {
        let encoders = Encoders::new(1);
        let mut coder = encoders.begin(Coding::Zstd, level, length).unwrap();
        coder.write(&text(500_000));
        let Some(Engine::Zstd(context)) = &coder.engine else { panic!() };
        assert!(context.sizeof() < 2 << 20, "level {level}: {}", context.sizeof());
    }
}

#[test]
fn one_that_has_failed_says_so() {
    let encoders = Encoders::new(1);
    let mut coder = encoders.begin(Coding::Zstd, 3, Some(5)).unwrap();
    coder.write(b"more than five");
    coder.finish();
    assert_eq!(coder.made(), Err(Failed));
    assert_eq!(encoders.counts().in_use, 0);
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Flush,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_usize..3).prop_map(Step::Write),
        (0_usize..70_000).prop_map(Step::Write),
        Just(Step::Flush),
        Just(Step::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However content comes, a decoder gets it, and has all of it behind each flush.
    #[test]
    fn every_coding_by_random_chunks_and_flushes(
        gzip in any::<bool>(),
        level in 1_u8..=9,
        known in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..12),
    ) {
        let coding = if gzip { Coding::Gzip } else { Coding::Zstd };
        let sizes = steps.iter().map(|step| if let Step::Write(bytes) = step { *bytes } else { 0 });
        let content = text(sizes.sum());
        let encoders = Encoders::new(1);
        let length = known.then_some(content.len() as u64);
        let mut coder = encoders.begin(coding, level, length).unwrap();
        let (mut made, mut written) = (Vec::new(), 0);
        for step in steps {
            match step {
                Step::Write(bytes) => {
                    coder.write(&content[written..written + bytes]);
                    written += bytes;
                    prop_assert!(coder.holds() || bytes == 0);
                }
                Step::Flush => {
                    coder.flush();
                    made.append(coder.made().unwrap());
                    prop_assert!(!coder.holds());
                    if written > 0 {
                        prop_assert_eq!(readable(coding, &made), &content[..written]);
                    }
                }
                Step::Take => made.append(coder.made().unwrap()),
            }
        }
        coder.finish();
        made.append(coder.made().unwrap());
        prop_assert_eq!(decoded(coding, &made), content);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// What the fuzz target does.
    #[test]
    fn whatever_is_coded_is_read_again(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        let coded = super::super::fuzzing::code(&data);
        if let Some(made) = &coded.made {
            prop_assert_eq!(&decoded(coded.coding, made), &coded.content);
            for (taken, there) in coded.flushes {
                let (before, expected) = (&made[..there], &coded.content[..taken]);
                prop_assert!(taken == 0 || readable(coded.coding, before) == expected);
            }
        }
    }
}
