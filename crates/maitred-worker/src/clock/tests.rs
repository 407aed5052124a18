use std::cell::Cell;

use super::*;

thread_local! {
    static WALL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

const SET: Environment =
    Environment { now: Instant::now, unix_time: || WALL.get(), is_quiet: |_, _, _| false };

fn date(clock: &Clock) -> &str {
    std::str::from_utf8(&clock.http_date).unwrap()
}

#[test]
fn the_date_follows_the_wall_clock_in_both_directions() {
    WALL.set(Duration::new(784_111_777, 999_999_999));
    let mut clock = SET.read();
    assert_eq!((date(&clock), clock.unix_micros), ("Sun, 06 Nov 1994 08:49:37 GMT", 999_999));
    assert_eq!(clock.unix_us(), 784_111_777_999_999);
    for (unix_secs, expected) in [
        (784_111_778, "Sun, 06 Nov 1994 08:49:38 GMT"),
        // The clock was set.
        (784_111_700, "Sun, 06 Nov 1994 08:48:20 GMT"),
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        WALL.set(Duration::from_secs(unix_secs));
        SET.advance(&mut clock);
        assert_eq!((date(&clock), clock.unix_secs, clock.unix_micros), (expected, unix_secs, 0));
    }
}

#[test]
fn the_text_of_the_date_is_made_once_a_second() {
    WALL.set(Duration::from_millis(5_100));
    let mut clock = SET.read();
    let before = clock.now;
    clock.http_date = [b'x'; 29];
    WALL.set(Duration::from_millis(5_900));
    SET.advance(&mut clock);
    assert_eq!((clock.http_date, clock.unix_micros), ([b'x'; 29], 900_000), "the same second");
    assert!(clock.now >= before);
    WALL.set(Duration::from_millis(6_000));
    SET.advance(&mut clock);
    assert_eq!(date(&clock), "Thu, 01 Jan 1970 00:00:06 GMT");
}
