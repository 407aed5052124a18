#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| maitred_config::fuzzing::read(data));
