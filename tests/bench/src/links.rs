//! Questions about links, and renames that lead links elsewhere, in trees of different sizes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundSeries, round_bound};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell};

use crate::asked::{self, Asked, measured};
use crate::plan::Extent;

/// Links of each page to others.
const LINKS: usize = 5;
/// Pages that also link to the hub, at most.
const AT_HUB: usize = 10_000;
/// Renames after the first.
const RENAMES: usize = 3;
const HUBS: [&str; 2] = ["hub.md", "other/center.md"];

/// All that is measured of links.
pub struct Links {
    /// One for each size.
    pub trees: Vec<Tree>,
}

/// What was measured in one tree.
pub struct Tree {
    /// Pages in it.
    pub pages: usize,
    /// Pages that link to the hub.
    pub at_hub: usize,
    /// Each question, with its answers from the second time on.
    pub asked: Vec<Asked>,
    /// Memory of the server before anybody asked for the graph, and the most it had then.
    pub memory: (u64, u64),
}

/// Measures trees of all sizes, one after the other.
///
/// # Errors
/// When the server fails or answers something wrong, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Links> {
    let trees = extent.sizes.iter().map(|pages| measure_in(run, extent, *pages)).collect::<Result<_>>()?;
    Ok(Links { trees })
}

fn measure_in(run: &BenchRun, extent: &Extent, pages: PageTree) -> Result<Tree> {
    run.report(&format!("links of {} pages", pages.count));
    let root = run.path(&format!("links-{}", pages.count));
    let at_hub = plant(run, &root, pages)?;
    run.flush_disk()?;
    let log = run.path(&format!("links-{}.log", pages.count));
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time },
    )?;
    server.wait_until_idle(run)?;
    let mut client = BenchClient::connect(server.address())?;
    let before = server.memory()?.resident;
    let mut asked = Vec::new();
    for (name, target, is_right) in questions(pages, at_hub) {
        let mut ask = |number: usize| -> Result<()> {
            let answer: Value = serde_json::from_slice(&client.get(&target(number))?)?;
            ensure!(is_right(&answer), "{name}: the answer is wrong");
            Ok(())
        };
        asked.push(measured(run, name, extent.plan.search_round, &mut ask)?);
    }
    let most = server.memory()?.peak;
    let mut write_and_walk = |number: usize| -> Result<()> {
        let page = pages.scattered_page(number);
        client.write(&pages.path(page), format!("{}\n\nagain: {number}\n", linked(pages, page, at_hub)))?;
        client.get(&format!("/api/svc/graph/walk?path={}", percent_encode(&pages.path(page)))).map(drop)
    };
    asked.push(measured(run, "a write, then `/graph/walk`", extent.renames, &mut write_and_walk)?);
    let mut rename = |number: usize| -> Result<()> {
        let body = json!({ "from": HUBS[number % 2], "to": HUBS[(number + 1) % 2] });
        let answer: Value = serde_json::from_slice(&client.post("/api/svc/rename", &body)?)?;
        ensure!(answer["updated_links"] == at_hub, "{} links of {at_hub} were rewritten", answer["updated_links"]);
        Ok(())
    };
    asked.push(apart(run, &server, HUB_RENAMED, &mut rename)?);
    let folder = folder_of(&pages.path(0)).to_owned();
    let mut rename = |number: usize| -> Result<()> {
        let names = [&*folder, "moved/folder"];
        let body = json!({ "from": names[number % 2], "to": names[(number + 1) % 2] });
        let answer: Value = serde_json::from_slice(&client.post("/api/svc/rename-dir", &body)?)?;
        ensure!(answer["renamed"] == pages.folder_size.min(pages.count), "{} files were renamed", answer["renamed"]);
        Ok(())
    };
    asked.push(apart(run, &server, "`/rename-dir` of a folder of 100 pages", &mut rename)?);
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(Tree { pages: pages.count, at_hub, asked, memory: (before, most) })
}

const BACKLINKS: &str = "`/backlinks` of some page";
const FOLDER: &str = "`/tree` of a folder";
const HUB_RENAMED: &str = "`/rename` of the hub, links rewritten";

/// Questions answered from the graph alone; only the whole graph, which is as long as all links
/// are, is none of them.
const OF_GRAPH: [&str; 5] = [
    "`/graph/analytics`",
    "`/graph/centrality?limit=100`",
    "`/graph/path`",
    "`/graph/walk`",
    "`/graph/communities`, every page",
];

type Question = (&'static str, Box<dyn Fn(usize) -> String>, Box<dyn Fn(&Value) -> bool>);

fn questions(pages: PageTree, at_hub: usize) -> Vec<Question> {
    let count = pages.count;
    let some = move |number: usize| percent_encode(&pages.path(pages.scattered_page(number)));
    let listed = |answer: &Value, name: &str| answer[name].as_array().is_some_and(|list| !list.is_empty());
    vec![
        (
            BACKLINKS,
            Box::new(move |number| format!("/api/svc/backlinks?path={}", some(number))),
            Box::new(|answer| answer.is_array()),
        ),
        (
            "`/backlinks` of the hub, the first 1000",
            Box::new(|_| format!("/api/svc/backlinks?path={}", HUBS[0])),
            Box::new(move |answer| answer.as_array().is_some_and(|list| list.len() == at_hub.min(1_000))),
        ),
        (
            FOLDER,
            Box::new(move |number| {
                let page = pages.path(pages.scattered_page(number));
                format!("/api/svc/tree?path={}", percent_encode(folder_of(&page)))
            }),
            Box::new(|answer| answer.as_array().is_some_and(|list| !list.is_empty())),
        ),
        (
            OF_GRAPH[0],
            Box::new(|_| "/api/svc/graph/analytics".to_owned()),
            Box::new(move |answer| answer["total_nodes"] == count + 1 && answer["components"] == 1),
        ),
        (
            OF_GRAPH[1],
            Box::new(|_| "/api/svc/graph/centrality?limit=100".to_owned()),
            Box::new(|answer| answer["pages"][0]["path"] == HUBS[0]),
        ),
        (
            OF_GRAPH[2],
            Box::new(move |number| format!("/api/svc/graph/path?from={}&to={}", some(number), some(number + 1))),
            Box::new(move |answer| listed(answer, "path")),
        ),
        (
            OF_GRAPH[3],
            Box::new(move |number| format!("/api/svc/graph/walk?path={}", some(number))),
            Box::new(move |answer| listed(answer, "links_out")),
        ),
        (
            OF_GRAPH[4],
            Box::new(|_| "/api/svc/graph/communities".to_owned()),
            Box::new(move |answer| listed(answer, "communities")),
        ),
        (
            "`/graph`, every page and link",
            Box::new(|_| "/api/svc/graph".to_owned()),
            Box::new(move |answer| listed(answer, "edges")),
        ),
    ]
}

/// [`measured`] for what is followed by work that nobody waits for: each time once that is done.
fn apart(
    run: &BenchRun,
    server: &ServerProcess,
    name: &'static str,
    work: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Asked> {
    run.report(name);
    let mut once = |number: usize| -> Result<MeasuredRound> {
        server.wait_until_idle(run)?;
        run.measure_round(round_bound(1, 60), |_| work(number))
    };
    let first = once(0)?.elapsed;
    let mut later = RoundSeries::default();
    for number in 1..=RENAMES {
        later.add(once(number)?);
    }
    Ok(Asked { name, first, later })
}

/// The folder of a page, which in a large tree is one of a folder.
fn folder_of(page: &str) -> &str {
    page.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A page with its links: to pages all over the tree, to the next one so that no page is alone, and
/// some to the hub.
fn linked(pages: PageTree, page: usize, at_hub: usize) -> String {
    let name = |page: usize| Path::new(&pages.path(page)).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let others = (1..LINKS).map(|nth| pages.scattered_page(page * LINKS + nth)).chain([(page + 1) % pages.count]);
    let links: Vec<String> = others.filter_map(name).map(|name| format!("[[{name}]]")).collect();
    let hub = if page < at_hub { "\n\nAll of it: [[hub]]." } else { "" };
    format!("---\ntitle: Page {page}\n---\n\n# Page {page}\n\nSee {}.{hub}\n", links.join(", "))
}

/// Writes the tree; how many pages link to the hub.
pub fn plant(run: &BenchRun, root: &Path, pages: PageTree) -> Result<usize> {
    let at_hub = pages.count.min(AT_HUB);
    for page in 0..pages.count {
        let path = root.join(pages.path(page));
        if page % pages.folder_size == 0 {
            run.check_stop()?;
            std::fs::create_dir_all(path.parent().context("a page has no folder")?)?;
        }
        std::fs::write(path, linked(pages, page, at_hub))?;
    }
    std::fs::write(root.join(HUBS[0]), "# Hub\n")?;
    Ok(at_hub)
}

impl Links {
    /// Of the largest tree: backlinks and a folder's tree at their p99, the slowest of the graph's
    /// questions at its p50, and the longest rename of the hub.
    pub fn judged(&self) -> Option<Judged> {
        let tree = self.trees.last()?;
        let of = |name: &str| tree.asked.iter().find(|asked| asked.name == name);
        let p99 = |name: &str| of(name)?.later.percentile(0.99);
        let hub = of(HUB_RENAMED)?;
        Some(Judged {
            pages: tree.pages,
            at_hub: tree.at_hub,
            backlinks: p99(BACKLINKS),
            folder: p99(FOLDER),
            graph: OF_GRAPH.iter().filter_map(|name| of(name)?.later.percentile(0.5)).max(),
            hub: hub.later.longest().max(Some(hub.first)),
        })
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let trees: Vec<(usize, &[Asked])> = self.trees.iter().map(|tree| (tree.pages, &*tree.asked)).collect();
        let mut table = asked::table("links", "links: 5 a page, and those to a hub", &trees);
        for tree in &self.trees {
            let (before, most) = tree.memory;
            table.notes.push(format!(
                "{} pages, {} of them linked to the hub: the server had {} before the first question about the graph, and at most {} \
                 until the last.",
                tree.pages,
                tree.at_hub,
                TableCell::Bytes(before),
                TableCell::Bytes(most),
            ));
        }
        table
    }
}

/// What is asked for of the largest tree.
pub struct Judged {
    /// Pages in it.
    pub pages: usize,
    /// Pages that link to its hub.
    pub at_hub: usize,
    /// `/backlinks`, p99.
    pub backlinks: Option<Duration>,
    /// `/tree` of a folder, p99.
    pub folder: Option<Duration>,
    /// The slowest question about the graph with a bounded answer, p50.
    pub graph: Option<Duration>,
    /// The longest rename of the hub.
    pub hub: Option<Duration>,
}
