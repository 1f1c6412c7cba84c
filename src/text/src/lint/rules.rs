//! Implementation of the rules.

use std::collections::HashMap;

use serde_json::Value;

use super::{LintIssue, LintRule, RuleSeverities};
use crate::blocks::{BodyBlocks, CodeFence, TableBlock};
use crate::frontmatter::{self, Frontmatter, ParseError, SplitPage};
use crate::headings::{Heading, slug};
use crate::lines::LineStarts;
use crate::structure;
use crate::tables::{BrokenTable, cells, find_broken_table};

const DATE_KEYS: [&str; 3] = ["created", "updated", "last-reviewed"];

/// The first words of mermaid diagrams, in lower case, up to mermaid 11.
const MERMAID_KINDS: &str = "graph flowchart sequencediagram classdiagram statediagram erdiagram gantt pie journey \
    gitgraph mindmap timeline quadrantchart sankey xychart block packet kanban architecture \
    c4context c4container c4component c4dynamic c4deployment requirementdiagram requirement \
    zenuml radar treemap info";

pub(super) struct CheckedPage<'a> {
    split: SplitPage<'a>,
    lines: LineStarts<'a>,
    severities: &'a RuleSeverities,
    pub(super) issues: Vec<LintIssue>,
}

impl<'a> CheckedPage<'a> {
    pub(super) fn new(text: &'a str, severities: &'a RuleSeverities) -> Self {
        Self { split: frontmatter::split(text), lines: LineStarts::new(text), severities, issues: Vec::new() }
    }

    fn report(&mut self, rule: LintRule, offset: usize, message: String) {
        let Some(severity) = self.severities.of(rule) else { return };
        let line = self.lines.index_of(offset) + 1;
        let column = self.lines.column(offset);
        self.issues.push(LintIssue { rule, line, column, message, severity });
    }

    fn report_in_body(&mut self, rule: LintRule, offset: usize, message: String) {
        self.report(rule, offset + self.split.body_offset, message);
    }

    pub(super) fn frontmatter(&mut self) {
        let frontmatter = frontmatter::parse_split(&self.split);
        if let Some(error) = &frontmatter.error {
            self.issues.extend(frontmatter_issue(error, self.severities));
            return;
        }
        if frontmatter.text("title").is_none() {
            let message = "frontmatter has no `title`; add one".to_owned();
            self.report(LintRule::FrontmatterMissingRequired, 0, message);
        }
        for key in DATE_KEYS {
            self.date(&frontmatter, key);
        }
    }

    fn date(&mut self, frontmatter: &Frontmatter, key: &str) {
        let Some(value) = frontmatter.map.get(key) else { return };
        let shown = match value {
            Value::Null => return,
            Value::String(text) if is_iso_date(text.trim()) => return,
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        let message = format!("`{key}` is `{shown}`; write a date as `2026-01-31` or `2026-01-31T09:30:00Z`");
        self.report(LintRule::FrontmatterDateInvalid, self.offset_of_key(key), message);
    }

    /// Whether [`Self::blocks`] may find an issue: most pages have neither code nor tables.
    pub(super) fn has_blocks(&self) -> bool {
        ["|", "```", "~~~"].iter().any(|mark| self.split.body.contains(mark))
    }

    /// Start of the line of a top-level key; the top of the page if the line is not found.
    fn offset_of_key(&self, key: &str) -> usize {
        let mut offset = self.split.content_offset;
        for line in self.split.content().unwrap_or_default().split_inclusive('\n') {
            let name = line.trim_start_matches(['"', '\'']).strip_prefix(key);
            if name.is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with([':', '='])) {
                return offset;
            }
            offset += line.len();
        }
        0
    }

    pub(super) fn blocks(&mut self) {
        let body = self.split.body;
        let blocks = BodyBlocks::of(body);
        for fence in &blocks.fences {
            self.fence(body, fence);
        }
        for table in &blocks.tables {
            self.table(body, table);
        }
        for paragraph in &blocks.paragraphs {
            let Some(text) = body.get(paragraph.clone()) else {
                continue;
            };
            match find_broken_table(text) {
                Some(BrokenTable::NoSeparator) => {
                    let message =
                        "table header is not followed by a separator; add a line like `| --- | --- |` under it";
                    self.report_in_body(LintRule::TableNoSeparator, paragraph.start, message.to_owned());
                }
                Some(BrokenTable::UnevenSeparator { header, separator }) => {
                    let message = format!("separator has {}, header has {header}", columns(separator));
                    let second = text.find('\n').map_or(0, |at| at + 1);
                    self.report_in_body(LintRule::TableColumnMismatch, paragraph.start + second, message);
                }
                None => {}
            }
        }
        for image in blocks.empty_images {
            self.report_in_body(LintRule::LinkImageBroken, image, "image has no target".to_owned());
        }
    }

    fn fence(&mut self, body: &str, fence: &CodeFence) {
        if fence.is_unclosed(body) {
            let marker = fence.marker(body).unwrap_or("```");
            let message = format!("code fence is never closed; add a line ` {marker} ` after the code");
            self.report_in_body(LintRule::FenceUnclosed, fence.range.start, message);
        }
        if fence.language != "mermaid" {
            return;
        }
        let message = match mermaid_kind(&fence.code) {
            Some(kind) if MERMAID_KINDS.split(' ').any(|known| known.eq_ignore_ascii_case(kind)) => return,
            Some(kind) => format!("`{kind}` is not a kind of mermaid diagram; begin with one, such as `flowchart`"),
            None => "mermaid block is empty; begin with a kind of diagram, such as `flowchart`".to_owned(),
        };
        self.report_in_body(LintRule::FenceMermaidInvalid, fence.range.start, message);
    }

    fn table(&mut self, body: &str, table: &TableBlock) {
        let expected = table.alignments.len();
        for row in &table.rows {
            let Some(text) = body.get(row.clone()) else { continue };
            let actual = cells(text).len();
            if actual != expected {
                let message = format!("row has {}, header has {expected}", columns(actual));
                self.report_in_body(LintRule::TableColumnMismatch, row.start, message);
            }
        }
    }

    pub(super) fn headings(&mut self) {
        let headings = structure::parse(&self.split, &self.lines).headings;
        let mut first_lines: HashMap<String, usize> = HashMap::new();
        let mut above: Option<&Heading> = None;
        for heading in &headings {
            let wanted = slug(&heading.text);
            if !wanted.is_empty() {
                let first = *first_lines.entry(wanted.clone()).or_insert(heading.line);
                if first != heading.line {
                    let message = format!(
                        "anchor `{wanted}` is taken by the heading in line {first}; the anchor of this one is `{}`",
                        heading.slug
                    );
                    self.report(LintRule::HeadingDuplicateSlug, heading.range.start, message);
                }
            }
            if let Some(above) = above
                && heading.level > above.level + 1
            {
                let message = format!("heading of level {} under one of level {}", heading.level, above.level);
                self.report(LintRule::HeadingSkipLevel, heading.range.start, message);
            }
            above = Some(heading);
        }
    }
}

/// The issue of frontmatter that cannot be read; none if it is only too long, which counts as
/// empty.
pub(super) fn frontmatter_issue(error: &ParseError, severities: &RuleSeverities) -> Option<LintIssue> {
    if matches!(error, ParseError::Oversized { .. }) {
        return None;
    }
    let rule = LintRule::FrontmatterYamlInvalid;
    let (line, column) = error.position();
    Some(LintIssue { rule, line, column, message: error.message(), severity: severities.of(rule)? })
}

fn columns(count: usize) -> String {
    if count == 1 { "1 column".to_owned() } else { format!("{count} columns") }
}

fn is_iso_date(text: &str) -> bool {
    text.parse::<jiff::civil::DateTime>().is_ok() || text.parse::<jiff::Timestamp>().is_ok()
}

/// The first word of a mermaid block, after its own frontmatter, comments and directives.
fn mermaid_kind(code: &str) -> Option<&str> {
    let code = match code.trim_start().strip_prefix("---\n") {
        Some(rest) => rest.split_once("\n---").map_or("", |(_, diagram)| diagram),
        None => code,
    };
    let mut in_directive = false;
    for line in code.lines().map(str::trim) {
        if in_directive || line.starts_with("%%{") {
            in_directive = !line.ends_with("}%%");
            continue;
        }
        if line.is_empty() || line.starts_with("%%") {
            continue;
        }
        let end = line.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(line.len());
        return Some(if end == 0 { line } else { &line[..end] });
    }
    None
}
