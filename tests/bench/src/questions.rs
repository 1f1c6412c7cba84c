//! Questions about frontmatter, and how a tree is doing, in trees of different sizes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{RoundSeries, round_bound};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::MarkdownTable;

use crate::asked::{self, Asked, measured};
use crate::plan::Extent;

/// Fields of the same kind, so that a question about one that has no index yet can be asked again.
/// Each gets its index with the third question.
const FIELDS: usize = 10;
/// One page in so many has a value of such a field.
const SHARE: usize = 97;
/// The value that is asked for.
const VALUE: usize = 42;
/// As often a field is asked for before its index appears.
const BEFORE_INDEX: usize = 2;

const UNINDEXED: &str = "`TABLE … WHERE`, a field without an index";
const INDEXED: &str = "the same, once its index has appeared";

/// Every page may be looked at, so that the scan itself is measured; of its own accord svcfs looks
/// at ten thousand at most, and makes the index at the first question about more.
const SETTINGS: &str = "[dataview]\nmax_scan_rows = 1000000\n";

/// All that is measured of such questions.
pub struct Questions {
    /// Pages of each tree, and what was asked in it.
    trees: Vec<(usize, Vec<Asked>)>,
}

/// Measures trees of all sizes, one after the other.
///
/// # Errors
/// When the server fails or answers something wrong, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Questions> {
    let trees = extent.sizes.iter().map(|pages| Ok((pages.count, measure_in(run, extent, *pages)?)));
    Ok(Questions { trees: trees.collect::<Result<_>>()? })
}

fn measure_in(run: &BenchRun, extent: &Extent, pages: PageTree) -> Result<Vec<Asked>> {
    run.report(&format!("questions in {} pages", pages.count));
    let root = run.path(&format!("questions-{}", pages.count));
    plant(run, &root, pages)?;
    run.flush_disk()?;
    let log = run.path(&format!("questions-{}.log", pages.count));
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time },
    )?;
    server.wait_until_idle(run)?;
    let mut client = BenchClient::connect(server.address())?;
    let mut asked = of_fields(run, &mut client, pages, extent)?;
    for (name, target, is_right) in others(pages) {
        let mut ask = |number: usize| -> Result<()> {
            let answer: Value = serde_json::from_slice(&client.get(&target(number))?)?;
            ensure!(is_right(&answer), "{name}: the answer is wrong");
            Ok(())
        };
        asked.push(measured(run, name, extent.plan.search_round, &mut ask)?);
    }
    let mut write_and_look = |number: usize| -> Result<()> {
        let page = pages.scattered_page(number);
        client.write(&pages.path(page), format!("{}\nagain: {number}\n", described(pages, page)))?;
        client.get("/api/svc/janitor").map(drop)
    };
    asked.push(measured(run, "a write, then `/janitor`", extent.renames, &mut write_and_look)?);
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(asked)
}

/// Each field before it has an index, when it gets one, and after.
fn of_fields(run: &BenchRun, client: &mut BenchClient, pages: PageTree, extent: &Extent) -> Result<Vec<Asked>> {
    let right = (0..pages.count).filter(|page| page % SHARE == VALUE).count();
    let mut ask = |field: usize| -> Result<()> {
        let q = format!("TABLE title, status WHERE kind-{field} = {VALUE}");
        let answer: Value = serde_json::from_slice(&client.get(&format!("/api/svc/query?q={}", percent_encode(&q)))?)?;
        ensure!(answer["total"] == right, "`{q}` finds {} pages of {right}", answer["total"]);
        Ok(())
    };
    run.report(UNINDEXED);
    let (mut before, mut appearing) = (RoundSeries::default(), RoundSeries::default());
    let mut first = Duration::ZERO;
    for field in 0..FIELDS {
        let round = run.measure_round(round_bound(BEFORE_INDEX, 60), |_| ask(field))?;
        if field == 0 {
            first = round.latencies.first().copied().context("nothing was asked")?;
        }
        before.add(round);
        appearing.add(run.measure_round(round_bound(1, 60), |_| ask(field))?);
    }
    let made_first = appearing.longest().unwrap_or_default();
    Ok(vec![
        Asked { name: UNINDEXED, first, later: before },
        Asked { name: "the same, when its index is made", first: made_first, later: appearing },
        measured(run, INDEXED, extent.plan.search_round, &mut |number| ask(number % FIELDS))?,
    ])
}

type Question = (&'static str, Box<dyn Fn(usize) -> String>, Box<dyn Fn(&Value) -> bool>);

fn others(pages: PageTree) -> Vec<Question> {
    let count = pages.count;
    let query = |q: &str| {
        let target = format!("/api/svc/query?q={}", percent_encode(q));
        Box::new(move |_: usize| target.clone())
    };
    let is_list = |answer: &Value| answer.as_array().is_some_and(|list| !list.is_empty());
    vec![
        (
            "`TABLE … GROUP BY`, every page",
            query("TABLE count() AS pages GROUP BY status"),
            Box::new(|answer| answer["total"] == 3),
        ),
        (
            "`LIST FROM #tag SORT due`",
            query("LIST due FROM #even SORT due DESC LIMIT 20"),
            Box::new(move |answer| answer["total"] == count.div_ceil(2)),
        ),
        (
            "`LIST FROM \"folder/\"`",
            query("LIST FROM \"folder-000/\""),
            Box::new(|answer| answer["rows"].as_array().is_some_and(|rows| !rows.is_empty())),
        ),
        (
            "`/query/aggregate`, every page",
            Box::new(|_| "/api/svc/query/aggregate?group=status&calc=count".to_owned()),
            Box::new(is_list),
        ),
        (
            "`/meta`, one condition",
            Box::new(|_| format!("/api/svc/meta?where={}", percent_encode("$.status=draft"))),
            Box::new(is_list),
        ),
        (
            "`/health-check` of some page",
            Box::new(move |number| {
                format!("/api/svc/health-check?path={}", percent_encode(&pages.path(pages.scattered_page(number))))
            }),
            Box::new(|answer| answer.is_object()),
        ),
        ("`/stale`", Box::new(|_| "/api/svc/stale".to_owned()), Box::new(is_list)),
        ("`/contradictions`", Box::new(|_| "/api/svc/contradictions".to_owned()), Box::new(Value::is_array)),
        (
            "`/janitor`, nothing changed",
            Box::new(|_| "/api/svc/janitor".to_owned()),
            Box::new(move |answer| answer["scanned"] == count),
        ),
        (
            "`/analytics`, nothing changed",
            Box::new(|_| "/api/svc/analytics".to_owned()),
            Box::new(move |answer| answer["total_pages"] == count),
        ),
    ]
}

/// A page of the generated tree with frontmatter to ask for. One in a hundred is past its review.
fn described(pages: PageTree, page: usize) -> String {
    let status = ["draft", "review", "done"][page % 3];
    let parity = if page.is_multiple_of(2) { "even" } else { "odd" };
    let review = if page.is_multiple_of(100) { 2020 } else { 2120 };
    let mut text = format!(
        "---\ntitle: Page {page}\nstatus: {status}\npriority: {}\ndue: 2026-{:02}-{:02}\nreview-by: {review}-01-01\ntags: [{parity}, all]\n",
        page % 10,
        page % 12 + 1,
        page % 28 + 1,
    );
    for field in 0..FIELDS {
        text.push_str(&format!("kind-{field}: {}\n", page % SHARE));
    }
    let next = pages.path((page + 1) % pages.count);
    text.push_str(&format!("---\n\n# Page {page}\n\nSee [the next](/{next}).\n"));
    text
}

fn plant(run: &BenchRun, root: &Path, pages: PageTree) -> Result<()> {
    std::fs::create_dir_all(root.join(".svc"))?;
    std::fs::write(root.join(".svc/config.toml"), SETTINGS)?;
    for page in 0..pages.count {
        let path = root.join(pages.path(page));
        if page % pages.folder_size == 0 {
            run.check_stop()?;
            std::fs::create_dir_all(path.parent().context("a page has no folder")?)?;
        }
        std::fs::write(path, described(pages, page))?;
    }
    Ok(())
}

/// What is asked for of the largest tree.
pub struct Judged {
    /// Pages in it.
    pub pages: usize,
    /// A condition on a field without an index, the slowest.
    pub unindexed: Option<Duration>,
    /// The same with its index, p99.
    pub indexed: Option<Duration>,
}

impl Questions {
    /// What is asked of the largest tree; none without a tree.
    pub fn judged(&self) -> Option<Judged> {
        let (pages, asked) = self.trees.last()?;
        let of = |name: &str| asked.iter().find(|asked| asked.name == name);
        Some(Judged {
            pages: *pages,
            unindexed: of(UNINDEXED)?.later.longest(),
            indexed: of(INDEXED)?.later.percentile(0.99),
        })
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let trees: Vec<(usize, &[Asked])> = self.trees.iter().map(|(pages, asked)| (*pages, &**asked)).collect();
        asked::table("questions", "queries, and how a tree is doing", &trees)
    }
}
