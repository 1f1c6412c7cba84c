//! What was measured of writing, as tables.

use super::{MANY, WritingResults};
use crate::git::{GitQuestion, HistorySizes};
use crate::series::RoundSeries;
use crate::table::{MarkdownTable, TableCell, column, quotient, shown, text, times};

impl WritingResults {
    /// Single pages; many at once; how long a writer waits at worst; what is left.
    pub fn tables(&self) -> Vec<MarkdownTable> {
        let mut tables = vec![self.single(), self.bulks(), self.waits(), self.remains()];
        tables.extend(self.left.iter().flat_map(HistorySizes::tables));
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
        let copied = self.copied;
        let rows: [(String, &RoundSeries, &str); 12] = [
            ("svcfs, HTTP `PUT`, 1 client".to_owned(), &self.http_one, "yes"),
            (format!("svcfs, HTTP `PUT`, {MANY} clients"), &self.http_many, "yes"),
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
            let beside = |other: &RoundSeries| times(rate, other.rate());
            table.row([
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
        if let Some(reason) = &self.no_mount {
            table.notes.push(format!("The mount was not measured: {reason}."));
        }
        if self.left.is_none() {
            table
                .notes
                .push("git is not installed: nothing stands beside svcfs, and its history was not counted.".to_owned());
        }
        table.notes.push(format!(
            "Search found a page written right behind the {MANY} clients {} after its acknowledgement, at worst.",
            shown(self.found_after)
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
            ("svcfs, one right behind the other", &self.bulk_behind, "yes"),
            ("write, `git add --all && git commit`", &self.git_bulk, "no"),
            ("the same, `core.fsync=all`", &self.git_bulk_flushed, "yes"),
        ] {
            let beside = |other: &RoundSeries| times(series.typical_rate(), other.typical_rate());
            table.row([
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
        let mut table = waits("pages of 1.2 KiB");
        for (name, series) in [
            ("svcfs, HTTP `PUT`, 1 client".to_owned(), &self.http_one),
            (format!("svcfs, HTTP `PUT`, {MANY} clients"), &self.http_many),
            ("bare: one flush".to_owned(), &self.bare_append),
        ] {
            table.row(waited(&name, series));
        }
        table
    }

    fn remains(&self) -> MarkdownTable {
        let columns = vec![
            column("the server meanwhile", "who"),
            column("memory before the first write", "before_bytes"),
            column(format!("most while {MANY} clients wrote"), "writing_bytes"),
            column("stopping", "stop_us"),
        ];
        let mut table = MarkdownTable::new("server", columns);
        let memory = [TableCell::Bytes(self.memory_before), TableCell::Bytes(self.memory_writing)];
        table.row([text("`svcfs serve`")].into_iter().chain(memory).chain([TableCell::Time(Some(self.stop))]));
        table
    }
}

/// The table of how long a writer waits at worst, in work of a kind; without rows.
pub fn waits(of: &str) -> MarkdownTable {
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

/// A row of it.
pub fn waited(name: &str, series: &RoundSeries) -> [TableCell; 6] {
    let percentile = |share| TableCell::Time(series.percentile(share));
    let longest = TableCell::Time(series.longest());
    [text(name), TableCell::Count(series.len()), percentile(0.5), percentile(0.99), percentile(0.999), longest]
}

impl HistorySizes {
    fn tables(&self) -> [MarkdownTable; 2] {
        let Self { commits, size: (as_left, collected), packs, loose, asked } = self;
        let columns = vec![
            column(format!("history of {commits} commits"), "what"),
            column("on the disk", "bytes"),
            column("after `git gc`", "collected_bytes"),
            column("×", "times_collected"),
            column("packs", "packs"),
            column("loose objects", "loose"),
        ];
        let mut size = MarkdownTable::new("history_size", columns);
        let ratio = TableCell::Times(quotient(Some(*as_left as f64), Some(*collected as f64)));
        let sizes = [TableCell::Bytes(*as_left), TableCell::Bytes(*collected), ratio];
        let counts = [TableCell::Count(*packs), TableCell::Count(*loose)];
        size.row([text("`.git` as svcfs leaves it")].into_iter().chain(sizes).chain(counts));
        let columns = vec![
            column("stock git in this history", "command"),
            column("as svcfs leaves it", "p50_us"),
            column("after `git gc`", "collected_p50_us"),
            column("×", "times_collected"),
        ];
        let mut speed = MarkdownTable::new("history_speed", columns);
        for GitQuestion { name, as_left, collected } in asked {
            let latencies = [as_left, collected].map(|series| TableCell::Time(series.percentile(0.5)));
            let ratio = times(collected.typical_rate(), as_left.typical_rate());
            speed.row([text(*name)].into_iter().chain(latencies).chain([ratio]));
        }
        [size, speed]
    }
}
