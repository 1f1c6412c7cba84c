//! The results of writing, as tables.

use super::{CROWD_CLIENTS, WritingResults};
use crate::git::{GitQuestion, HistorySizes};
use crate::series::RoundSeries;
use crate::table::{MarkdownTable, TableCell, column, factor, format_duration, quotient, text};

impl WritingResults {
    /// Single pages; bulk writes; latencies; memory; history.
    pub fn tables(&self) -> Vec<MarkdownTable> {
        let mut tables = vec![self.single(), self.bulks(), self.waits(), self.remains()];
        tables.extend(self.history.iter().flat_map(HistorySizes::tables));
        tables
    }

    fn single(&self) -> MarkdownTable {
        let columns = vec![
            column("writing pages of 1.2 KiB", "way"),
            column("flushed", "flushed"),
            column("pages/s", "pages_per_second"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
            column("× git", "times_git"),
            column("× git flushed", "times_git_flushed"),
            column("× one flush", "times_one_flush"),
        ];
        let mut table = MarkdownTable::new("writing", columns);
        let copied = self.copy_pages;
        let rows: [(String, &RoundSeries, &str); 12] = [
            ("svcfs, HTTP `PUT`, 1 client".to_owned(), &self.http_one, "yes"),
            (format!("svcfs, HTTP `PUT`, {CROWD_CLIENTS} clients"), &self.http_many, "yes"),
            ("svcfs, mount: create, write, close".to_owned(), &self.mount_close, "≤ 50 ms later"),
            ("svcfs, mount: create, write, `fsync`, close".to_owned(), &self.mount_fsync, "yes"),
            (format!("svcfs, mount: `cp -r` of {copied} pages"), &self.mount_copy, "≤ 50 ms later"),
            ("`git add && git commit`".to_owned(), &self.git, "no"),
            ("`git add && git commit`, `core.fsync=all`".to_owned(), &self.git_flushed, "yes"),
            ("bare: write, rename".to_owned(), &self.bare_replace, "no"),
            ("bare: create, write, close".to_owned(), &self.bare_close, "no"),
            ("bare: create, write, `fsync`, close".to_owned(), &self.bare_fsync, "yes"),
            (format!("bare: `cp -r` of {copied} pages"), &self.bare_copy, "no"),
            ("bare: one flush (append, `fdatasync`)".to_owned(), &self.bare_append, "yes"),
        ];
        for (name, series, is_flushed) in rows {
            let rate = series.rate();
            let beside = |other: &RoundSeries| factor(rate, other.rate());
            table.add_row([
                text(name),
                text(is_flushed),
                TableCell::Rate(rate),
                TableCell::Time(series.percentile(0.5)),
                TableCell::Time(series.percentile(0.99)),
                beside(&self.git),
                beside(&self.git_flushed),
                beside(&self.bare_append),
            ]);
        }
        if let Some(reason) = &self.mount_error {
            table.notes.push(format!("The mount was not measured: {reason}."));
        }
        if self.history.is_none() {
            table
                .notes
                .push("git is not installed: nothing stands beside svcfs, and its history was not counted.".to_owned());
        }
        table.notes.push(format!(
            "Search found a page written right behind the {CROWD_CLIENTS} clients {} after its acknowledgement, at worst.",
            format_duration(self.search_delay)
        ));
        table
    }

    fn bulks(&self) -> MarkdownTable {
        let columns = vec![
            column(format!("{} pages in one commit", self.bulk_pages), "way"),
            column("flushed", "flushed"),
            column("p50", "p50_us"),
            column("longest", "longest_us"),
            column("× git", "times_git"),
            column("× git flushed", "times_git_flushed"),
        ];
        let mut table = MarkdownTable::new("bulk", columns);
        for (name, series, is_flushed) in [
            ("svcfs, HTTP `POST /bulk`", &self.bulk, "yes"),
            ("svcfs, one right behind the other", &self.bulk_consecutive, "yes"),
            ("write, `git add --all && git commit`", &self.git_bulk, "no"),
            ("the same, `core.fsync=all`", &self.git_bulk_flushed, "yes"),
        ] {
            let beside = |other: &RoundSeries| factor(series.typical_rate(), other.typical_rate());
            table.add_row([
                text(name),
                text(is_flushed),
                TableCell::Time(series.percentile(0.5)),
                TableCell::Time(series.longest()),
                beside(&self.git_bulk),
                beside(&self.git_bulk_flushed),
            ]);
        }
        table
    }

    fn waits(&self) -> MarkdownTable {
        let mut table = wait_table("pages of 1.2 KiB");
        for (name, series) in [
            ("svcfs, HTTP `PUT`, 1 client".to_owned(), &self.http_one),
            (format!("svcfs, HTTP `PUT`, {CROWD_CLIENTS} clients"), &self.http_many),
            ("bare: one flush".to_owned(), &self.bare_append),
        ] {
            table.add_row(wait_row(&name, series));
        }
        table
    }

    fn remains(&self) -> MarkdownTable {
        let columns = vec![
            column("the server meanwhile", "who"),
            column("memory before the first write", "before_bytes"),
            column(format!("most while {CROWD_CLIENTS} clients wrote"), "writing_bytes"),
            column("stopping", "stop_us"),
        ];
        let mut table = MarkdownTable::new("server", columns);
        let memory = [TableCell::Bytes(self.idle_memory), TableCell::Bytes(self.peak_memory)];
        table.add_row([text("`svcfs serve`")].into_iter().chain(memory).chain([TableCell::Time(Some(self.stop_time))]));
        table
    }
}

/// An empty table of write latencies.
pub fn wait_table(of: &str) -> MarkdownTable {
    let columns = vec![
        column(format!("how long a writer waits, {of}"), "way"),
        column("writes", "writes"),
        column("p50", "p50_us"),
        column("p99", "p99_us"),
        column("p99.9", "p999_us"),
        column("longest", "longest_us"),
    ];
    MarkdownTable::new("waits", columns)
}

/// A row of [`wait_table`].
pub fn wait_row(name: &str, series: &RoundSeries) -> [TableCell; 6] {
    let percentile = |share| TableCell::Time(series.percentile(share));
    let longest = TableCell::Time(series.longest());
    [text(name), TableCell::Count(series.len()), percentile(0.5), percentile(0.99), percentile(0.999), longest]
}

impl HistorySizes {
    fn tables(&self) -> [MarkdownTable; 2] {
        let Self { commits, size: (as_left, collected), packs, loose_objects: loose, queries } = self;
        let columns = vec![
            column(format!("history of {commits} commits"), "what"),
            column("on the disk", "bytes"),
            column("after `git gc`", "collected_bytes"),
            column("×", "times_collected"),
            column("packs", "packs"),
            column("loose objects", "loose"),
        ];
        let mut size = MarkdownTable::new("history_size", columns);
        let ratio = TableCell::Factor(quotient(Some(*as_left as f64), Some(*collected as f64)));
        let sizes = [TableCell::Bytes(*as_left), TableCell::Bytes(*collected), ratio];
        let counts = [TableCell::Count(*packs), TableCell::Count(*loose)];
        size.add_row([text("`.git` as svcfs leaves it")].into_iter().chain(sizes).chain(counts));
        let columns = vec![
            column("stock git in this history", "command"),
            column("as svcfs leaves it", "p50_us"),
            column("after `git gc`", "collected_p50_us"),
            column("×", "times_collected"),
        ];
        let mut speed = MarkdownTable::new("history_speed", columns);
        for GitQuestion { name, before_gc: as_left, after_gc: collected } in queries {
            let latencies = [as_left, collected].map(|series| TableCell::Time(series.percentile(0.5)));
            let ratio = factor(collected.typical_rate(), as_left.typical_rate());
            speed.add_row([text(*name)].into_iter().chain(latencies).chain([ratio]));
        }
        [size, speed]
    }
}
