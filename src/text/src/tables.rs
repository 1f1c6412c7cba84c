//! Rows of tables as GitHub parses them.

/// The cells of a row, trimmed. Every pipe without a backslash separates cells, also in code.
pub(crate) fn cells(row: &str) -> Vec<&str> {
    split_cells(row, |_| false)
}

/// The cells of a row if pipes inside code spans and wiki links are text: the likely intention in a
/// row with too many cells.
pub(crate) fn cells_around_spans(row: &str) -> Vec<&str> {
    let spans = spans(row);
    split_cells(row, |at| spans.iter().any(|span| span.contains(&at)))
}

pub(crate) fn with_escaped_pipes(cell: &str) -> String {
    let mut escaped = String::with_capacity(cell.len() + 2);
    for character in cell.chars() {
        if character == '|' && !escaped.ends_with('\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn split_cells(row: &str, is_text: impl Fn(usize) -> bool) -> Vec<&str> {
    let row = row.trim();
    let mut cells = Vec::new();
    let mut from = usize::from(row.starts_with('|'));
    for (at, _) in row.match_indices('|').skip(from) {
        let escaped = at > 0 && row.as_bytes()[at - 1] == b'\\';
        if !escaped && !is_text(at) {
            cells.push(row[from..at].trim());
            from = at + 1;
        }
    }
    if from < row.len() {
        cells.push(row[from..].trim());
    }
    cells
}

/// Longer rows, in bytes, are not scanned for spans, because the scan is not linear.
const MAX_SCANNED_ROW_BYTES: usize = 16 * 1024;

fn spans(row: &str) -> Vec<std::ops::Range<usize>> {
    let row = row.trim();
    let bytes = row.as_bytes();
    let mut spans = Vec::new();
    if bytes.len() > MAX_SCANNED_ROW_BYTES {
        return spans;
    }
    let mut at = 0;
    // run lengths without a closing run in the rest of the row
    let mut unmatched_runs = std::collections::HashSet::new();
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'`' => {
                let run = bytes[at..].iter().take_while(|byte| **byte == b'`').count();
                let close = if unmatched_runs.contains(&run) { None } else { closing_run(bytes, at + run, run) };
                if close.is_none() {
                    unmatched_runs.insert(run);
                }
                Some(close.unwrap_or(at + run))
            }
            b'[' if bytes.get(at + 1) == Some(&b'[') => {
                let inner = bytes[at + 2..].iter().position(|byte| matches!(byte, b']' | b'[' | b'`'));
                inner
                    .map(|length| at + 2 + length)
                    .filter(|close| bytes[*close..].starts_with(b"]]"))
                    .map(|close| close + 2)
            }
            _ => None,
        };
        match end {
            Some(end) => {
                spans.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    spans
}

/// The end of the next run of exactly `length` backticks after `from`.
fn closing_run(bytes: &[u8], mut from: usize, length: usize) -> Option<usize> {
    while from < bytes.len() {
        let start = from + bytes[from..].iter().position(|byte| *byte == b'`')?;
        let run = bytes[start..].iter().take_while(|byte| **byte == b'`').count();
        if run == length {
            return Some(start + run);
        }
        from = start + run;
    }
    None
}

/// Whether this is a separator line: cells of `---`, `:--`, `--:` or `:-:`, and at least one pipe.
pub(crate) fn is_separator(line: &str) -> bool {
    let is_dashes = |cell: &&str| {
        let dashes = cell.strip_prefix(':').unwrap_or(cell);
        let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    line.contains('|') && line.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t')) && {
        let cells = cells(line);
        !cells.is_empty() && cells.iter().all(is_dashes)
    }
}

/// The defect of a paragraph that should be a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenTable {
    /// No separator below the first row.
    NoSeparator,
    /// The separator and the header have different numbers of cells.
    UnevenSeparator {
        /// Cells of the first line.
        header: usize,
        /// Cells of the second.
        separator: usize,
    },
}

/// Whether this paragraph is a broken table.
///
/// Conservative, because prose may contain pipes: without a separator every line must begin and end
/// with a pipe, and there must be two lines and two columns.
pub(crate) fn find_broken_table(paragraph: &str) -> Option<BrokenTable> {
    if !paragraph.contains('|') {
        return None;
    }
    let mut lines = paragraph.trim_end().split('\n').map(|line| line.trim_matches([' ', '\t', '>', '\r']));
    let (first, second) = (lines.next()?, lines.next()?);
    let header = cells(first).len();
    if is_separator(second) {
        let separator = cells(second).len();
        // `a | b` above `---|` may be prose; a leading pipe identifies rows
        let is_row = first.starts_with('|') && second.starts_with('|');
        return (is_row && header != separator).then_some(BrokenTable::UnevenSeparator { header, separator });
    }
    let is_row = |line: &str| line.len() > 2 && line.starts_with('|') && line.ends_with('|') && cells(line).len() > 1;
    let mut rows = [first, second].into_iter().chain(lines);
    rows.all(|line| is_row(line) && !is_separator(line)).then_some(BrokenTable::NoSeparator)
}
