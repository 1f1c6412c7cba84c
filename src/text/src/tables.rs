//! Rows of tables as GitHub reads them.

/// The cells of a row: what stands between its pipes, trimmed. A pipe behind a backslash does not divide, any other does, code or not.
pub(crate) fn cells(row: &str) -> Vec<&str> {
    cut(row, |_| false)
}

/// The cells of a row if pipes inside code spans and wiki links did not divide: what the author of a row with too many cells
/// most likely meant.
pub(crate) fn cells_around_spans(row: &str) -> Vec<&str> {
    let spans = spans(row);
    cut(row, |at| spans.iter().any(|span| span.contains(&at)))
}

/// A cell whose bare pipes are put behind backslashes.
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

fn cut(row: &str, is_text: impl Fn(usize) -> bool) -> Vec<&str> {
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

/// Longest row, in bytes, whose spans are looked for: no person wrote a longer one, and looking is not linear.
const MAX_SPANNED_ROW: usize = 16 * 1024;

/// Where the code spans and wiki links of a row are.
fn spans(row: &str) -> Vec<std::ops::Range<usize>> {
    let row = row.trim();
    let bytes = row.as_bytes();
    let mut spans = Vec::new();
    if bytes.len() > MAX_SPANNED_ROW {
        return spans;
    }
    let mut at = 0;
    // lengths of runs that were looked for in vain: they are not there further on either
    let mut hopeless = std::collections::HashSet::new();
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'`' => {
                let run = bytes[at..].iter().take_while(|byte| **byte == b'`').count();
                let close = if hopeless.contains(&run) { None } else { closing_run(bytes, at + run, run) };
                if close.is_none() {
                    hopeless.insert(run);
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

/// Is this the line of dashes under a header: cells of `---`, `:--`, `--:` or `:-:`, and at least one pipe?
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

/// What a paragraph is that was meant to be a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenTable {
    /// Rows, and no separator under the first.
    NoSeparator,
    /// The separator has another number of cells than the header.
    UnevenSeparator {
        /// Cells of the first line.
        header: usize,
        /// Cells of the second.
        separator: usize,
    },
}

/// Is this paragraph a table that went wrong?
///
/// Careful on purpose, for prose may hold pipes: without a separator every line must begin and end with a pipe, and there
/// must be two lines and two columns.
pub(crate) fn broken(paragraph: &str) -> Option<BrokenTable> {
    if !paragraph.contains('|') {
        return None;
    }
    let mut lines = paragraph.trim_end().split('\n').map(|line| line.trim_matches([' ', '\t', '>', '\r']));
    let (first, second) = (lines.next()?, lines.next()?);
    let header = cells(first).len();
    if is_separator(second) {
        let separator = cells(second).len();
        // `a | b` over `---|` is prose as well as anything; rows say what they are by their first pipe
        let is_row = first.starts_with('|') && second.starts_with('|');
        return (is_row && header != separator).then_some(BrokenTable::UnevenSeparator { header, separator });
    }
    let is_row = |line: &str| line.len() > 2 && line.starts_with('|') && line.ends_with('|') && cells(line).len() > 1;
    let mut all = [first, second].into_iter().chain(lines);
    all.all(|line| is_row(line) && !is_separator(line)).then_some(BrokenTable::NoSeparator)
}
