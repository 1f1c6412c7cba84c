//! Ids in the event stream.

use std::str::FromStr;

use svcfs_base::{Fault, Seq};

/// The id of an event: a change set, and how many of its events came before. After the last event
/// of a set the id is the bare `<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventPosition {
    /// The last change set that is complete.
    pub seq: u64,
    /// Number of events of the next one that were sent.
    pub part: usize,
}

impl EventPosition {
    /// The position after event `n` (from 1) of `count` in the set `seq`.
    pub const fn after(seq: Seq, n: usize, count: usize) -> Self {
        if n == count { Self { seq: seq.0, part: 0 } } else { Self { seq: seq.0 - 1, part: n } }
    }
}

impl std::fmt::Display for EventPosition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.part {
            0 => write!(formatter, "{}", self.seq),
            part => write!(formatter, "{}.{part}", self.seq + 1),
        }
    }
}

impl FromStr for EventPosition {
    type Err = Fault;
    fn from_str(text: &str) -> Result<Self, Fault> {
        let read = || {
            let (seq, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
            let (seq, part) = (seq.parse::<u64>().ok()?, part.parse::<usize>().ok()?);
            if part == 0 {
                return Some(Self { seq, part });
            }
            Some(Self { seq: seq.checked_sub(1)?, part })
        };
        read().ok_or_else(|| {
            let text = text.escape_default();
            Fault::invalid("Last-Event-ID", format_args!("`{text}` is not an id of this stream"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: HTTP-9
    #[test]
    fn an_id_names_the_set_and_the_events_of_it_that_are_done() {
        for (n, count, text) in [(1, 1, "7"), (1, 3, "7.1"), (2, 3, "7.2"), (3, 3, "7")] {
            let position = EventPosition::after(Seq(7), n, count);
            assert_eq!(position.to_string(), text);
            assert_eq!(text.parse::<EventPosition>().unwrap(), position);
        }
        for text in ["", "x", "1.x", "-1", "0.1", "1.2.3", "99999999999999999999"] {
            assert!(text.parse::<EventPosition>().is_err(), "{text:?}");
        }
    }
}
