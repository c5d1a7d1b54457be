//! Tables for other programs: comma-separated values with a line of names, times in seconds, sizes in bytes.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

use super::app::TokenRow;
use crate::protocol::LayerCost;
use crate::session::{stamp, unix_now};

/// Names that are tried for a file, where there are others of the same second.
const TRIES: u32 = 100;

/// A line for each layer, counted from zero.
pub(crate) fn layers(layers: &[LayerCost]) -> String {
    let mut out = String::from("layer,seconds,waited_s,trunk_bytes,expert_bytes,woken,resident\n");
    for (number, layer) in layers.iter().enumerate() {
        let (seconds, waited) = (layer.ns as f64 * 1e-9, layer.waited_ns as f64 * 1e-9);
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{number},{seconds},{waited},{},{},{},{}",
            layer.trunk_bytes, layer.expert_bytes, layer.requests, layer.resident
        );
    }
    out
}

/// A line for each token; turns and tokens are counted from one.
pub(crate) fn tokens(rows: &[TokenRow]) -> String {
    let mut out = String::from("turn,token,seconds,waited_s,trunk_bytes,expert_bytes,woken,resident\n");
    for TokenRow { turn, token, step } in rows {
        let cost = &step.cost;
        let _ = writeln!(
            out,
            "{turn},{token},{},{},{},{},{},{}",
            step.seconds, cost.waited_s, cost.trunk, cost.experts, cost.woken, cost.resident
        );
    }
    out
}

/// Writes a table into the folder that the program was started in, under a name that is new there.
///
/// # Errors
/// What the system says.
pub(super) fn write(name: &str, text: &str) -> io::Result<PathBuf> {
    let folder = std::env::current_dir()?;
    let stamp = stamp(unix_now());
    for number in 1..=TRIES {
        let more = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("dormouse-{name}-{stamp}{more}.csv"));
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TokenCost;
    use crate::tui::app::Step;

    #[test]
    fn tables_have_a_line_of_names_and_one_for_each_row() {
        let layer = LayerCost {
            ns: 1_500_000_000,
            waited_ns: 250_000_000,
            trunk_bytes: 7,
            expert_bytes: 8,
            requests: 16,
            resident: 4,
        };
        let text = layers(&[LayerCost::default(), layer]);
        assert_eq!(text.lines().nth(2), Some("1,1.5,0.25,7,8,16,4"));
        assert_eq!(text.lines().count(), 3);
        let cost = TokenCost { trunk: 5, experts: 6, woken: 8, resident: 2, waited_s: 0.5 };
        let row = TokenRow { turn: 1, token: 2, step: Step { seconds: 0.75, cost } };
        let text = tokens(&[row]);
        assert_eq!(text.lines().nth(1), Some("1,2,0.75,0.5,5,6,8,2"));
        for line in text.lines() {
            assert_eq!(line.split(',').count(), 8);
        }
    }
}
