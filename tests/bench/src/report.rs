//! The tables.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::git::Size;
use crate::measure::Series;
use crate::past::{Asked, Past};
use crate::reading::{Answered, Reading, Start};
use crate::writing::{COPIED, MANY, Writing};

/// Around the part of a document that a run replaces.
const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// Everything measured, as markdown.
pub fn markdown(facts: &[String], (writing, reading, past): (&Writing, &Reading, &Past)) -> String {
    let mut text = String::new();
    for fact in facts {
        text.push_str(&format!("- {fact}\n"));
    }
    let flush = &writing.bare_append;
    text.push_str(&format!(
        "- One flush of this disk (append of a page, `fdatasync`): p50 {}, p99 {}\n\n",
        shown(flush.percentile(0.5)),
        shown(flush.percentile(0.99))
    ));
    text.push_str(&writes(writing));
    text.push_str(&searches(reading));
    text.push_str(&starts(reading));
    text.push_str(&history(past));
    text.push_str(&sizes(writing));
    text
}

fn writes(writing: &Writing) -> String {
    let many = format!("svcfs, HTTP `PUT`, {MANY} clients");
    let copy = format!("svcfs, mount: `cp -r` of {COPIED} pages");
    let bare_copy = format!("bare: `cp -r` of {COPIED} pages");
    let rows: [(&str, &Series, &str); 12] = [
        ("svcfs, HTTP `PUT`, 1 client", &writing.http_one, "yes"),
        (&many, &writing.http_many, "yes"),
        ("svcfs, mount: create, write, close", &writing.mount_close, "≤ 50 ms later"),
        ("svcfs, mount: create, write, `fsync`, close", &writing.mount_fsync, "yes"),
        (&copy, &writing.mount_copy, "≤ 50 ms later"),
        ("`git add && git commit`", &writing.git, "no"),
        ("`git add && git commit`, `core.fsync=all`", &writing.git_flushed, "yes"),
        ("bare: write, rename", &writing.bare_replace, "no"),
        ("bare: create, write, close", &writing.bare_close, "no"),
        ("bare: create, write, `fsync`, close", &writing.bare_fsync, "yes"),
        (&bare_copy, &writing.bare_copy, "no"),
        ("bare: one flush (append, `fdatasync`)", &writing.bare_append, "yes"),
    ];
    let mut text =
        "| writing pages of 1.2 KiB | flushed | pages/s | p50 | p99 | × git | × git flushed | × one flush |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for (name, series, is_flushed) in rows {
        let rate = series.rate();
        let beside = |other: &Series| times(rate, other.rate());
        text.push_str(&format!(
            "| {name} | {is_flushed} | {} | {} | {} | {} | {} | {} |\n",
            rate.map_or_else(|| "—".to_owned(), |rate| format!("{rate:.0}")),
            shown(series.percentile(0.5)),
            shown(series.percentile(0.99)),
            beside(&writing.git),
            beside(&writing.git_flushed),
            beside(&writing.bare_append),
        ));
    }
    if let Some(reason) = &writing.no_mount {
        text.push_str(&format!("\nThe mount was not measured: {reason}.\n"));
    }
    text.push_str(&format!(
        "\nSearch found a page written right behind the {MANY} clients {} after its acknowledgement, at worst.\n\n",
        shown(Some(writing.found_after))
    ));
    text
}

fn searches(reading: &Reading) -> String {
    let mut text = format!(
        "| searching {} | pages with it | p50 | p95 | p99 | `grep -r` p50 | × `grep -r` |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        reading.corpus
    );
    for Answered { question, pages, svcfs, grep } in &reading.questions {
        let rate = |series: &Series| series.percentile(0.5).map(|latency| 1.0 / latency.as_secs_f64());
        text.push_str(&format!(
            "| {}: `{}` | {pages} | {} | {} | {} | {} | {} |\n",
            question.kind,
            question.q,
            shown(svcfs.percentile(0.5)),
            shown(svcfs.percentile(0.95)),
            shown(svcfs.percentile(0.99)),
            shown(grep.percentile(0.5)),
            times(rate(svcfs), rate(grep)),
        ));
    }
    let asked: Vec<String> = reading.questions.iter().map(|answered| answered.svcfs.len().to_string()).collect();
    text.push_str(&format!("\nSearches per row: {}.\n\n", asked.join(", ")));
    text
}

fn starts(reading: &Reading) -> String {
    let mut text = format!(
        "| starting over {} | `/readyz` | search answers right | memory at rest | most memory |\n|---|---:|---:|---:|---:|\n",
        reading.corpus
    );
    for (name, Start { ready, found, memory }) in
        [("first: adopt, commit and index", &reading.first), ("again: nothing changed", &reading.again)]
    {
        text.push_str(&format!(
            "| {name} | {} | {} | {} | {} |\n",
            shown(Some(*ready)),
            shown(Some(*found)),
            mebibytes(memory.resident),
            mebibytes(memory.most),
        ));
    }
    text.push('\n');
    text
}

/// The table of questions about history.
pub fn history(past: &Past) -> String {
    let mut text = format!(
        "| history: {} commits on {} pages, {} versions of the page asked for | first | p50 | p99 | in git | p50 | × git |\n\
         |---|---:|---:|---:|---|---:|---:|\n",
        past.commits, past.pages, past.versions
    );
    for Asked { name, first, svcfs, command, git } in &past.questions {
        let rate = |series: &Series| series.percentile(0.5).map(|latency| 1.0 / latency.as_secs_f64());
        text.push_str(&format!(
            "| {name} | {} | {} | {} | `{command}` | {} | {} |\n",
            shown(Some(*first)),
            shown(svcfs.percentile(0.5)),
            shown(svcfs.percentile(0.99)),
            shown(git.percentile(0.5)),
            times(rate(svcfs), rate(git)),
        ));
    }
    let asked: Vec<String> = past.questions.iter().map(|asked| asked.svcfs.len().to_string()).collect();
    text.push_str(&format!(
        "\nQuestions per row: {}. Before that, the first start over this history, which a person made with git, took {}, the next {}; \
         the server had at most {}.\n\n",
        asked.join(", "),
        shown(Some(past.first_start)),
        shown(Some(past.next_start)),
        mebibytes(past.memory),
    ));
    text
}

fn sizes(writing: &Writing) -> String {
    let mut text = "| what is left of the writing | |\n|---|---:|\n".to_owned();
    let mut row = |name: &str, value: String| text.push_str(&format!("| {name} | {value} |\n"));
    row("memory before the first write", mebibytes(writing.memory_before));
    row(&format!("most memory while {MANY} clients wrote"), mebibytes(writing.memory_writing));
    row("stopping", shown(Some(writing.stop)));
    if let Some(Size { commits, as_left, packs, collected }) = &writing.size {
        row("commits", commits.to_string());
        row(&format!("`.git` as svcfs leaves it, {packs} packs"), mebibytes(*as_left));
        row("`.git` after `git gc` on a copy", mebibytes(*collected));
        row("× `git gc`", times(Some(*as_left as f64), Some(*collected as f64)));
    }
    text
}

/// How many times one is the other.
fn times(one: Option<f64>, other: Option<f64>) -> String {
    match (one, other) {
        (Some(one), Some(other)) if one / other >= 99.5 => format!("{:.0}", one / other),
        (Some(one), Some(other)) if one / other >= 0.1 => format!("{:.2}", one / other),
        (Some(one), Some(other)) => format!("{:.4}", one / other),
        (None, _) | (_, None) => "—".to_owned(),
    }
}

/// A time with three digits that count.
fn shown(time: Option<Duration>) -> String {
    let Some(time) = time else { return "—".to_owned() };
    let micros = time.as_secs_f64() * 1e6;
    let (value, unit) = match micros {
        ..1e3 => (micros, "µs"),
        1e3..1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    match value {
        ..10.0 => format!("{value:.2} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Replaces the part between the marks in a document.
///
/// # Errors
/// When it cannot be read or written, or has no marks.
pub fn replace(document: &Path, table: &str) -> Result<()> {
    let name = document.display();
    let text = std::fs::read_to_string(document).with_context(|| format!("cannot read `{name}`"))?;
    let replaced =
        between_marks(&text, table).with_context(|| format!("`{name}` has no `{BEGIN}` before an `{END}`"))?;
    std::fs::write(document, replaced).with_context(|| format!("cannot write `{name}`"))
}

fn between_marks(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(between_marks(&text, "new\n"), Some(format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n")));
        assert_eq!(between_marks(&format!("{END}{BEGIN}"), "new"), None);
    }

    #[test]
    fn times_and_ratios_keep_the_digits_that_count() {
        for (micros, text) in [(7, "7.00 µs"), (1_234, "1.23 ms"), (45_678, "45.7 ms"), (3_000_000, "3.00 s")] {
            assert_eq!(shown(Some(Duration::from_micros(micros))), text);
        }
        assert_eq!(shown(None), "—");
        for (one, text) in [(250.0, "250"), (2.5, "2.50"), (0.004, "0.0040")] {
            assert_eq!(times(Some(one), Some(1.0)), text);
        }
    }
}
