//! Drafts: opening them, writing in them beside writing in the tree, merging a large one, and
//! undoing the merge.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundBound, RoundSeries};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

use crate::answers::{self, Judged};
use crate::plan::Extent;

const DRAFTS: &str = "/api/svc/drafts";
/// Pages of the merged draft.
const MERGED_PAGES: usize = 1_000;
const MERGES: usize = 3;
/// Drafts that are open together.
const OPEN_DRAFTS: usize = 200;
const SETTINGS: &str = "[drafts]\nmax_active = 10000\n";
const COMPLETE: Duration = Duration::from_secs(600);

const MAX_OPENING: Duration = Duration::from_millis(5);
const MAX_MERGE: Duration = Duration::from_secs(1);
const MAX_UNDO: Duration = Duration::from_secs(2);

/// All that is measured of drafts.
pub struct Drafts {
    pages: usize,
    merged: usize,
    opened: RoundSeries,
    written: RoundSeries,
    written_in_tree: RoundSeries,
    merges: RoundSeries,
    undos: RoundSeries,
}

/// Measures drafts of a large tree.
///
/// # Errors
/// When the server refuses something, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Drafts> {
    let pages = extent.sizes.last().copied().unwrap_or(PageTree::new(1_000));
    let bound = extent.plan.search_round;
    run.report(&format!("drafts of a tree of {} pages", pages.count));
    let root = run.path("drafts");
    pages.write_tree(run, &root)?;
    std::fs::create_dir_all(root.join(".svc"))?;
    std::fs::write(root.join(".svc/config.toml"), SETTINGS)?;
    run.flush_disk()?;
    let log = run.path("drafts.log");
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let server = ServerProcess::start_with_args(run, place, &["--adopt"])?;
    answers::until_complete(run, &server, (pages.count, COMPLETE))?;
    server.wait_until_idle(run)?;
    let mut client = BenchClient::connect(server.address())?;
    let (mut opened, mut written, mut written_in_tree): (RoundSeries, RoundSeries, RoundSeries) = Default::default();
    let (mut merges, mut undos): (RoundSeries, RoundSeries) = Default::default();
    let open_bound = RoundBound { count: bound.count.min(OPEN_DRAFTS), ..bound };
    opened.add(run.measure_round(open_bound, |_| open(&mut client).map(drop))?);
    let draft = open(&mut client)?;
    let target = |draft: &str, path: &str| format!("{DRAFTS}/{draft}/file?path={}", percent_encode(path));
    // Both write pages that were not written before, so that the draft reads each base.
    written.add(run.measure_round(bound, |n| {
        let (path, content) = pages.rewrite(n);
        client.put(&target(&draft, &path), content).map(drop)
    })?);
    written_in_tree.add(run.measure_round(bound, |n| {
        let (path, content) = pages.rewrite(n);
        client.write(&path, content)
    })?);
    let count = MERGED_PAGES.min(pages.count);
    for merge in 0..MERGES {
        run.check_stop()?;
        let draft = open(&mut client)?;
        for n in 0..count {
            let (path, content) = (pages.path(n), pages.text(n, 1_000_000 + merge));
            client.put(&target(&draft, &path), content)?;
        }
        let asked = Instant::now();
        let answer: Value = serde_json::from_slice(&client.post(&format!("{DRAFTS}/{draft}/merge"), &json!({}))?)?;
        let elapsed = asked.elapsed();
        merges.add(MeasuredRound { latencies: vec![elapsed], elapsed });
        let merged = answer["paths"].as_array().map_or(0, Vec::len);
        ensure!(merged == count, "{merged} of {count} pages were merged");
        let merge = json!({ "commits": [answer["version"]] });
        let asked = Instant::now();
        let answer: Value = serde_json::from_slice(&client.post("/api/svc/revert", &merge)?)?;
        let elapsed = asked.elapsed();
        undos.add(MeasuredRound { latencies: vec![elapsed], elapsed });
        let undone = answer["undone"].as_array().map_or(0, Vec::len);
        ensure!(undone == count, "{undone} of {count} pages were undone");
    }
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(Drafts { pages: pages.count, merged: count, opened, written, written_in_tree, merges, undos })
}

fn open(client: &mut BenchClient) -> Result<String> {
    let answer: Value = serde_json::from_slice(&client.post(DRAFTS, &json!({}))?)?;
    answer["id"].as_str().map(str::to_owned).context("a draft has no id")
}

impl Drafts {
    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let title = format!("drafts, {} pages", self.pages);
        let columns = vec![
            column(&title, "what"),
            column("per second", "rate"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
        ];
        let mut table = MarkdownTable::new("drafts", columns);
        for (name, series) in [
            ("`POST /drafts`".to_owned(), &self.opened),
            ("`PUT /drafts/{id}/file`, 1 client".to_owned(), &self.written),
            ("`PUT /file`, 1 client".to_owned(), &self.written_in_tree),
            (format!("`POST /drafts/{{id}}/merge`, {} pages", self.merged), &self.merges),
            (format!("`POST /revert`, {} pages", self.merged), &self.undos),
        ] {
            let percentile = |share| TableCell::Time(series.percentile(share));
            table.add_row([text(name), TableCell::Rate(series.rate()), percentile(0.5), percentile(0.99)]);
        }
        table
    }

    /// What is asked for, beside what was measured.
    pub fn judged(&self) -> impl Iterator<Item = Judged> {
        let in_tree = self.written_in_tree.percentile(0.5).unwrap_or_default();
        let merge = format!("merging a draft of {} pages", self.merged);
        [
            ("opening a draft, p50".to_owned(), MAX_OPENING, self.opened.percentile(0.5)),
            ("a write in a draft, p50: twice a write".to_owned(), 2 * in_tree, self.written.percentile(0.5)),
            (merge, MAX_MERGE, self.merges.percentile(0.5)),
            (format!("undo of {} changed pages", self.merged), MAX_UNDO, self.undos.percentile(0.5)),
        ]
        .map(|(what, wanted, measured)| Judged { what, wanted, measured })
        .into_iter()
    }
}
