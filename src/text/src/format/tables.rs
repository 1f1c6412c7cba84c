//! Step 3: add missing table separators, give each row as many cells as the header, and align
//! columns.

use std::borrow::Cow;

use pulldown_cmark::Alignment;

use super::{TextEdit, apply_edits, line_end, line_start, meaning};
use crate::blocks::{BodyBlocks, TableBlock};
use crate::tables::{BrokenTable, cells, cells_around_spans, find_broken_table, with_escaped_pipes};

/// Maximum growth factor of an aligned table: one very long cell must not enlarge every row.
const MAX_GROWTH: usize = 8;

/// Tables up to this size, in characters, are always aligned.
const MIN_LIMITED_CHARS: usize = 8 * 1024;

pub(super) fn repair(body: &str) -> Option<String> {
    if !body.contains('|') {
        return None;
    }
    let separated = insert_separators(body);
    let body = separated.as_deref().unwrap_or(body);
    let edits = BodyBlocks::of(body).tables.iter().flat_map(|table| align(body, table).unwrap_or_default()).collect();
    let aligned = apply_edits(body, edits).filter(|after| meaning::is_same_outside_cells(body, after));
    aligned.or(separated)
}

/// Inserts a separator below the first row of a paragraph that is otherwise a table.
fn insert_separators(body: &str) -> Option<String> {
    let mut edits = Vec::new();
    for paragraph in BodyBlocks::of(body).paragraphs {
        let Some(text) = body.get(paragraph.clone()) else {
            continue;
        };
        if find_broken_table(text) != Some(BrokenTable::NoSeparator) {
            continue;
        }
        let end = line_end(body, paragraph.start);
        let columns = cells(&body[paragraph.start..end]).len();
        let prefix = container_prefix(&body[line_start(body, paragraph.start)..paragraph.start]);
        let text = ["\n", &prefix, "|", &" --- |".repeat(columns)].concat();
        edits.push(TextEdit { range: end..end, text });
    }
    let tables = edits.len();
    let after = apply_edits(body, edits)?;
    // each paragraph must have become exactly one table
    (BodyBlocks::of(&after).tables.len() == BodyBlocks::of(body).tables.len() + tables).then_some(after)
}

/// Prefix of the next line in the same container: `>` remains, a list marker becomes spaces.
fn container_prefix(before: &str) -> String {
    before.chars().map(|character| if matches!(character, '>' | '\t') { character } else { ' ' }).collect()
}

/// The edits that align a table; none when it is invalid or would grow too much.
fn align(body: &str, table: &TableBlock) -> Option<Vec<TextEdit>> {
    let columns = table.alignments.len();
    let rows: Vec<(std::ops::Range<usize>, Vec<Cow<'_, str>>)> = table
        .rows
        .iter()
        .map(|row| {
            let start = row.start + (body[row.clone()].len() - body[row.clone()].trim_start().len());
            let range = start..line_end(body, start).min(row.end.max(start));
            let range = range.start..range.start + body[range.clone()].trim_end_matches('\n').len();
            let cells = row_cells(&body[range.clone()], columns)?;
            Some((range, cells))
        })
        .collect::<Option<_>>()?;
    let header = rows.first()?;
    let separator_line = line_end(body, header.0.start) + 1;
    let separator_start = separator_line + body.get(separator_line..)?.find(|c| !matches!(c, ' ' | '\t' | '>'))?;
    let separator = separator_start..line_end(body, separator_start);

    let widths = widths(&rows.iter().map(|(_, cells)| cells.as_slice()).collect::<Vec<_>>(), columns);
    let aligned: usize = rows.len().saturating_mul(widths.iter().map(|width| width + 3).sum());
    let source: usize = rows.iter().map(|(_, cells)| cells.iter().map(|cell| cell.len() + 3).sum::<usize>()).sum();
    if aligned > MIN_LIMITED_CHARS.max(source.saturating_mul(MAX_GROWTH)) {
        return None;
    }
    let mut edits: Vec<TextEdit> = rows
        .into_iter()
        .map(|(range, cells)| TextEdit { range, text: row(&cells, &widths, &table.alignments) })
        .collect();
    edits.push(TextEdit { range: separator, text: separator_row(&widths, &table.alignments) });
    Some(edits)
}

/// The cells of a row, at most one per column.
///
/// If there are more, pipes inside code and wiki links are treated as text and escaped, if that
/// gives the right number; empty extra cells are removed. None when an extra cell has text:
/// removing it would lose content, so the linter reports the table instead.
fn row_cells(row: &str, columns: usize) -> Option<Vec<Cow<'_, str>>> {
    let all_cells = cells(row);
    if all_cells.len() > columns {
        let unescaped = cells_around_spans(row);
        if unescaped.len() == columns {
            return Some(unescaped.into_iter().map(|cell| Cow::Owned(with_escaped_pipes(cell))).collect());
        }
        if all_cells[columns..].iter().any(|cell| !cell.trim().is_empty()) {
            return None;
        }
    }
    Some(all_cells.into_iter().take(columns).map(Cow::Borrowed).collect())
}

fn widths(rows: &[&[Cow<'_, str>]], columns: usize) -> Vec<usize> {
    let mut widths = vec![3; columns];
    for cells in rows {
        for (width, cell) in widths.iter_mut().zip(*cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

fn row(cells: &[Cow<'_, str>], widths: &[usize], alignments: &[Alignment]) -> String {
    let mut line = String::from("|");
    for (index, width) in widths.iter().enumerate() {
        let cell = cells.get(index).map_or("", |cell| cell.as_ref());
        let padding = width.saturating_sub(cell.chars().count());
        let before = match alignments.get(index) {
            Some(Alignment::Right) => padding,
            Some(Alignment::Center) => padding / 2,
            Some(Alignment::Left | Alignment::None) | None => 0,
        };
        line.push(' ');
        line.extend(std::iter::repeat_n(' ', before));
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', padding - before));
        line.push_str(" |");
    }
    line
}

fn separator_row(widths: &[usize], alignments: &[Alignment]) -> String {
    let mut line = String::from("|");
    for (width, alignment) in widths.iter().zip(alignments) {
        let (left, right) = match alignment {
            Alignment::None => ("", ""),
            Alignment::Left => (":", ""),
            Alignment::Right => ("", ":"),
            Alignment::Center => (":", ":"),
        };
        let dashes = "-".repeat(width - left.len() - right.len());
        line.push_str(&[" ", left, &dashes, right, " |"].concat());
    }
    line
}
