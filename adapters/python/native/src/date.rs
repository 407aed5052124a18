//! The field Date, without Python: its code could come here again.

use std::cell::RefCell;

use rustix::time::{ClockId, clock_gettime};

struct Date {
    second: i64,
    line: Vec<u8>,
}

thread_local! {
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: 0, line: Vec::new() }) };
}

/// The field Date, formatted once in a second.
pub(crate) fn append_date(out: &mut Vec<u8>) {
    let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    DATE.with_borrow_mut(|date| {
        if date.second != second || date.line.is_empty() {
            date.second = second;
            date.line = format!("Date: {}\r\n", date_of(second)).into_bytes();
        }
        out.extend_from_slice(&date.line);
    });
}

/// A second since 1970 as RFC 9110, section 5.6.7, has it.
fn date_of(second: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    let (days, rest) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    // Years that begin in March have their odd day at the end; 400 of them have 146097 days.
    let from_march = days + 719_468;
    let (cycle, day) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + cycle * 400 + i64::from(month >= 10);
    let name = |names: &'static [&'static str], at: i64| {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
    };
    let (week_day, month) = (name(&DAYS, days.rem_euclid(7)), name(&MONTHS, month));
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{week_day}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}
