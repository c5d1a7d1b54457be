//! Times as a person reads them, in UTC: the system's time zones are not in std.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 where the clock stands before that.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Year, month, day, hour, minute, second.
fn civil(unix: u64) -> [u64; 6] {
    let (days, second) = (unix / 86_400, unix % 86_400);
    // Counted in years that begin in March, leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    [year, month, day, second / 3600, second / 60 % 60, second % 60]
}

/// As in `2026-11-30 17:52`.
pub fn text(unix: u64) -> String {
    let [year, month, day, hour, minute, _] = civil(unix);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// As in `20261130-175200`: sorts by time, and is a good name for a session.
pub fn stamp(unix: u64) -> String {
    let [year, month, day, hour, minute, second] = civil(unix);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix, expected) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_709_164_800, "2024-02-29 00:00"),
            (4_107_542_399, "2100-02-28 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(text(unix), expected);
        }
        assert_eq!(stamp(1_735_689_599), "20241231-235959");
    }
}
