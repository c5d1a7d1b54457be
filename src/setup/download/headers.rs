//! What a server says in the headers that a download rests on. Whatever is not exactly in its form counts as absent.

use std::time::Duration;

/// `Content-Range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    /// First and last byte; absent in an answer that refuses the range.
    pub(super) bytes: Option<(u64, u64)>,
    /// Length of the whole, if it is told.
    pub(super) total: Option<u64>,
}

/// Reads `bytes 5-9/10`, `bytes 5-9/*` and `bytes */10`.
pub(super) fn content_range(text: &str) -> Option<ContentRange> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim().split_once('/')?;
    let total = match total.trim() {
        "*" => None,
        digits => Some(digits.parse().ok()?),
    };
    let bytes = match range.trim() {
        "*" => None,
        range => {
            let (first, last) = range.split_once('-')?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || total.is_some_and(|total| last >= total) {
                return None;
            }
            Some((first, last))
        }
    };
    Some(ContentRange { bytes, total })
}

/// The digest in an `ETag` or `X-Linked-Etag`, without quotes and without the mark of weakness.
pub(super) fn etag(text: &str) -> &str {
    text.trim().trim_start_matches("W/").trim_matches('"')
}

/// The address of the next page in a `Link` header.
pub(super) fn next_link(text: &str) -> Option<&str> {
    // An address in brackets may hold commas, so links are not split at them.
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let (address, parameters) = after.split_once('>')?;
        let end = parameters.find('<').unwrap_or(parameters.len());
        let next = parameters[..end].split([';', ',']).any(|parameter| {
            parameter.split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"') == "next"
            })
        });
        if next {
            return Some(address);
        }
        rest = &parameters[end..];
    }
    None
}

/// `Retry-After`: seconds, or a date of which `now` (seconds since 1970) is taken off.
pub(super) fn retry_after(text: &str, now: u64) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    Some(Duration::from_secs(http_date(text)?.saturating_sub(now)))
}

/// Seconds since 1970 of a date like `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.split_once(", ")?.1.split(' ');
    let day: u64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = parts.next()?.parse().ok()?;
    let mut clock = parts.next()?.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let sound = (1970..10_000).contains(&year)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && parts.next() == Some("GMT");
    // Days of the years before, with the year beginning in March so that a leap day is its last.
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year;
    // That of 1 January 1970 in the same count.
    let since = days.checked_sub(719_468)?;
    sound.then(|| ((since * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_exactly() {
        let range = |text| content_range(text).map(|range| (range.bytes, range.total));
        assert_eq!(range("bytes 5-9/10"), Some((Some((5, 9)), Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((Some((5, 9)), None)));
        assert_eq!(range("bytes */10"), Some((None, Some(10))));
        for wrong in
            ["", "bytes", "bytes 9-5/10", "bytes 5-10/10", "bytes 5-/10", "items 5-9/10", "bytes 5-9"]
        {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_next_page_is_found_among_links() {
        assert_eq!(next_link(r#"<https://h/t?cursor=a,b>; rel="next""#), Some("https://h/t?cursor=a,b"));
        assert_eq!(
            next_link(r#"<https://h/1>; rel="first", <https://h/2>; x=1; rel=next"#),
            Some("https://h/2")
        );
        assert_eq!(next_link(r#"<https://h/1>; rel="prev""#), None);
        assert_eq!(next_link("<https://h/1"), None);
    }

    #[test]
    fn waits_are_seconds_or_a_date() {
        assert_eq!(retry_after("120", 0), Some(Duration::from_mins(2)));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(retry_after(date, 784_111_777 - 30), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(date, 784_111_777 + 30), Some(Duration::ZERO));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        for wrong in ["soon", "-1", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Foo 1994 08:49:37 GMT"] {
            assert_eq!(retry_after(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn an_etag_is_bare() {
        assert_eq!(etag(r#"W/"abc""#), "abc");
        assert_eq!(etag(r#""abc""#), "abc");
    }
}
