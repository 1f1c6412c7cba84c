//! Step 3: add missing table separators, give each row as many cells as the header, and align
//! columns.

use std::ops::Range;

use pulldown_cmark::Alignment;

use super::edits::{EditGroup, FormatInput, TextEdit, line_end, line_start};
use super::rendering::{Tolerance, apply_verified};
use crate::blocks::{BodyBlocks, TableBlock};
use crate::tables::{BrokenTable, cells, cells_around_spans, find_broken_table, with_escaped_pipes};

/// Maximum growth factor of an aligned table: one very long cell must not enlarge every row.
const MAX_GROWTH: usize = 8;

/// Tables up to this size, in characters, are always aligned.
const MIN_LIMITED_CHARS: usize = 8 * 1024;

/// Inserts a separator below the first row of a paragraph that is otherwise a table.
pub(super) fn insert_separators(input: &FormatInput<'_>) -> Option<String> {
    let body = input.body;
    if !body.contains('|') {
        return None;
    }
    let mut groups = Vec::new();
    for paragraph in &input.blocks.paragraphs {
        let Some(text) = body.get(paragraph.clone()) else {
            continue;
        };
        if input.is_verbatim(paragraph) || find_broken_table(text) != Some(BrokenTable::NoSeparator) {
            continue;
        }
        let end = line_end(body, paragraph.start);
        let columns = cells(&body[paragraph.start..end]).len();
        let prefix = container_prefix(&body[line_start(body, paragraph.start)..paragraph.start]);
        let text = ["\n", &prefix, "|", &" --- |".repeat(columns)].concat();
        groups.push(EditGroup::repair(paragraph.clone(), 1, TextEdit { range: end..end, text }));
    }
    let groups = input.permitted(groups);
    let tables = input.blocks.tables.len() + groups.len();
    let after = apply_verified(input, groups, Tolerance::EditedBlocks)?;
    // each paragraph must have become exactly one table
    (BodyBlocks::of(&after).tables.len() == tables).then_some(after)
}

/// Escapes the pipes inside code and wiki links that would cut off the last cells of a row.
pub(super) fn escape_pipes(input: &FormatInput<'_>) -> Option<String> {
    let rows = input.blocks.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let groups = rows.filter_map(|(table, row)| {
        let range = row_range(input.body, row);
        let cells = cells_with_escaped_pipes(&input.body[range.clone()], table.alignments.len())?;
        let text = ["| ", &cells.join(" | "), " |"].concat();
        Some(EditGroup::of_lines(vec![TextEdit { range, text }]))
    });
    apply_verified(input, groups, Tolerance::Cells)
}

/// Gives each row as many cells as the header, and aligns the columns.
pub(super) fn align(input: &FormatInput<'_>) -> Option<String> {
    let tables = input.blocks.tables.iter();
    let groups = tables.filter_map(|table| Some(EditGroup::of_lines(aligned(input.body, table)?)));
    apply_verified(input, groups, Tolerance::Nothing)
}

/// Prefix of the next line in the same container: `>` remains, a list marker becomes spaces.
fn container_prefix(before: &str) -> String {
    before.chars().map(|character| if matches!(character, '>' | '\t') { character } else { ' ' }).collect()
}

/// The row on its line, without its indentation.
fn row_range(body: &str, row: &Range<usize>) -> Range<usize> {
    let start = row.start + (body[row.clone()].len() - body[row.clone()].trim_start().len());
    let end = line_end(body, start).min(row.end.max(start));
    start..start + body[start..end].trim_end_matches('\n').len()
}

/// The edits that align a table; none when it is invalid or would grow too much.
fn aligned(body: &str, table: &TableBlock) -> Option<Vec<TextEdit>> {
    let columns = table.alignments.len();
    let rows: Vec<(Range<usize>, Vec<&str>)> = table
        .rows
        .iter()
        .map(|row| {
            let range = row_range(body, row);
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

/// The cells of a row, at most one per column. Empty extra cells are removed. None when an extra
/// cell has text: removing it would lose content, so the linter reports the table instead.
fn row_cells(row: &str, columns: usize) -> Option<Vec<&str>> {
    let mut all_cells = cells(row);
    if all_cells.iter().skip(columns).any(|cell| !cell.trim().is_empty()) {
        return None;
    }
    all_cells.truncate(columns);
    Some(all_cells)
}

/// The cells of a row that has too many of them, if it has the right number once pipes inside code
/// and wiki links are text.
fn cells_with_escaped_pipes(row: &str, columns: usize) -> Option<Vec<String>> {
    if cells(row).len() <= columns {
        return None;
    }
    let unescaped = cells_around_spans(row);
    (unescaped.len() == columns).then(|| unescaped.into_iter().map(with_escaped_pipes).collect())
}

fn widths(rows: &[&[&str]], columns: usize) -> Vec<usize> {
    let mut widths = vec![3; columns];
    for cells in rows {
        for (width, cell) in widths.iter_mut().zip(*cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

fn row(cells: &[&str], widths: &[usize], alignments: &[Alignment]) -> String {
    let mut line = String::from("|");
    for (index, width) in widths.iter().enumerate() {
        let cell = cells.get(index).copied().unwrap_or_default();
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
