//! What a change would do, as callers see it.

use std::collections::HashSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_store::unified_diff;
use svcfs_text::lint::{LintIssue, Severity};
use svcfs_vfs::PreviewedFile;

use crate::kernel::OperationContext;
use crate::schemas::lint_page;

/// Length at which a diff is cut.
const MAX_DIFF_BYTES: usize = 100 << 10;

/// Larger files are not compared.
const MAX_COMPARED_BYTES: usize = 4 << 20;

/// Limit of each list in a report.
const MAX_ENTRIES: usize = 1_000;

/// The output of a change; in a dry run, what it would be.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangeOutput<T> {
    #[serde(flatten)]
    output: T,
    /// With `dry_run`: what would change
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<DryRunReport>,
}

/// What a change would do.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DryRunReport {
    /// The files that would change
    pub changes: Vec<PreviewedChange>,
    /// Unified diff of the texts, cut at 100 KiB
    pub diff: String,
    /// True if the diff was cut
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_is_cut: bool,
    /// Lint findings in the new texts, each as `path:line: severity: message`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lint: Vec<String>,
    /// Links that would lead nowhere, or to another page of that name
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_links: Vec<BrokenLink>,
}

/// A file that would change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PreviewedChange {
    /// Its path after the change
    pub path: TreePath,
    /// What would happen to it
    pub change: FileChange,
    /// Its present path, if it would be renamed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<TreePath>,
}

/// What would happen to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// It would be new.
    Added,
    /// It would have another content.
    Modified,
    /// It would be removed.
    Removed,
    /// It would have another name, and another content if it has a diff.
    Renamed,
}

/// A link that would be broken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BrokenLink {
    /// The page with the link
    pub path: TreePath,
    /// The page that it leads to now
    pub target: TreePath,
    /// The line with the link
    pub context: String,
}

/// What a report is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    /// Written texts, with their lint findings.
    Writes,
    /// Removed and renamed files, with the links to them.
    Removals,
    /// Renames that rewrite the links.
    Relinking,
}

impl<T> ChangeOutput<T> {
    /// Runs a change, or shows what it would do.
    ///
    /// # Errors
    /// Those of the change; of the index and of reading schemas.
    pub fn of(
        cx: &OperationContext<'_>,
        (is_dry_run, kind): (bool, ReportKind),
        change: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<Self, Fault> {
        if !is_dry_run {
            return Ok(Self { output: change()?, dry_run: None });
        }
        let (output, files) = cx.dry_run(change)?;
        Ok(Self { output, dry_run: Some(DryRunReport::of(cx, &files, kind)?) })
    }

    /// The text for agents; `render` is that of a change that was made.
    pub fn render(&self, render: impl FnOnce(&T) -> String) -> String {
        let answer = render(&self.output);
        match &self.dry_run {
            Some(report) => format!("{}\nThe change itself would answer:\n{answer}", report.render()),
            None => answer,
        }
    }
}

impl DryRunReport {
    fn of(cx: &OperationContext<'_>, files: &[PreviewedFile], kind: ReportKind) -> Result<Self, Fault> {
        let (diff, diff_is_cut) = diff(cx, files)?;
        let changes = files.iter().map(PreviewedChange::of).take(MAX_ENTRIES).collect();
        if files.len() > MAX_ENTRIES {
            cx.add_note(format!("{MAX_ENTRIES} of {} changed files are listed", files.len()));
        }
        let lint = if kind == ReportKind::Writes { findings(cx, files)? } else { Vec::new() };
        let broken_links = if kind == ReportKind::Removals { broken_links(cx, files)? } else { Vec::new() };
        Ok(Self { changes, diff, diff_is_cut, lint, broken_links })
    }

    fn render(&self) -> String {
        let mut text = match self.changes.len() {
            0 => "Dry run: nothing would change.\n".to_owned(),
            1 => "Dry run: nothing was written. This file would change:\n".to_owned(),
            count => format!("Dry run: nothing was written. These {count} files would change:\n"),
        };
        for PreviewedChange { path, change, former } in &self.changes {
            let _infallible = match former {
                Some(former) => writeln!(text, "- renamed: {former} → {path}"),
                None => writeln!(text, "- {}: {path}", change.name()),
            };
        }
        if !self.lint.is_empty() {
            text.push_str("\nLint findings:\n");
            for finding in &self.lint {
                let _infallible = writeln!(text, "- {finding}");
            }
        }
        if !self.broken_links.is_empty() {
            text.push_str("\nLinks that would be broken:\n");
            for BrokenLink { path, target, context } in &self.broken_links {
                let _infallible = writeln!(text, "- {path} links to {target}: {context}");
            }
        }
        if !self.diff.is_empty() {
            let cut = if self.diff_is_cut { "\n[the diff is cut at 100 KiB]\n" } else { "" };
            let _infallible = write!(text, "\n{}{cut}", self.diff);
        }
        text
    }
}

impl PreviewedChange {
    fn of(file: &PreviewedFile) -> Self {
        let change = match file {
            PreviewedFile { former: Some(_), .. } => FileChange::Renamed,
            PreviewedFile { exists: false, .. } => FileChange::Removed,
            PreviewedFile { before: None, .. } => FileChange::Added,
            PreviewedFile { before: Some(_), .. } => FileChange::Modified,
        };
        Self { path: file.path.clone(), change, former: file.former.clone() }
    }
}

impl FileChange {
    const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Removed => "removed",
            Self::Renamed => "renamed",
        }
    }
}

/// The diff of all files, and whether it was cut.
fn diff(cx: &OperationContext<'_>, files: &[PreviewedFile]) -> Result<(String, bool), Fault> {
    let mut text = String::new();
    for PreviewedFile { path, before, after, .. } in files {
        let (before, after) = (before.as_deref(), after.as_deref());
        if before.is_none() && after.is_none() {
            continue;
        }
        if before.map_or(0, <[u8]>::len) + after.map_or(0, <[u8]>::len) > MAX_COMPARED_BYTES {
            cx.add_note(format!("`{path}` is not in the diff: it is larger than {} MiB", MAX_COMPARED_BYTES >> 20));
            continue;
        }
        text.push_str(&unified_diff(path, before, after)?);
        if text.len() > MAX_DIFF_BYTES {
            text.truncate(text.floor_char_boundary(MAX_DIFF_BYTES));
            return Ok((text, true));
        }
    }
    Ok((text, false))
}

fn findings(cx: &OperationContext<'_>, files: &[PreviewedFile]) -> Result<Vec<String>, Fault> {
    let mut findings = Vec::new();
    for PreviewedFile { path, after, .. } in files.iter().filter(|file| file.path.is_page()) {
        let Some(text) = after.as_deref().and_then(|after| std::str::from_utf8(after).ok()) else { continue };
        let finding = |LintIssue { line, severity, message, .. }: LintIssue| {
            let severity = match severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "info",
            };
            format!("{path}:{line}: {severity}: {message}")
        };
        findings.extend(lint_page(cx.space, text)?.into_iter().map(finding));
        if findings.len() > MAX_ENTRIES {
            findings.truncate(MAX_ENTRIES);
            cx.add_note(format!("the lint findings are cut at {MAX_ENTRIES}"));
            break;
        }
    }
    Ok(findings)
}

/// Links to the files that would have no file at their present path. A page that would change
/// itself is left out: it is removed, too, or its links are rewritten.
fn broken_links(cx: &OperationContext<'_>, files: &[PreviewedFile]) -> Result<Vec<BrokenLink>, Fault> {
    let present = |file: &PreviewedFile| file.former.clone().unwrap_or_else(|| file.path.clone());
    let changed: HashSet<TreePath> = files.iter().map(present).collect();
    let folder = cx.caller.permissions.visible_root();
    let mut broken = Vec::new();
    for target in files.iter().filter(|file| !file.exists || file.former.is_some()).map(present) {
        let (links, _) = cx.index().backlinks(&target, &folder, MAX_ENTRIES)?;
        let links = links.into_iter().filter(|link| !changed.contains(&link.path));
        broken.extend(links.map(|link| BrokenLink { path: link.path, target: target.clone(), context: link.context }));
        if broken.len() > MAX_ENTRIES {
            broken.truncate(MAX_ENTRIES);
            cx.add_note(format!("the broken links are cut at {MAX_ENTRIES}"));
            break;
        }
    }
    Ok(broken)
}
