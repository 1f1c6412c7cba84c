//! The board of a workflow with many pages.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use svcfs_measure::http::BenchClient;
use svcfs_measure::run::BenchRun;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::MarkdownTable;

use crate::asked::{self, Asked, measured};
use crate::plan::Extent;

const STATES: [&str; 4] = ["backlog", "in_progress", "review", "done"];
const DEFINITION: &str = r#"{
  "states": [{"name": "backlog"}, {"name": "in_progress"}, {"name": "review"}, {"name": "done", "terminal": true}],
  "transitions": [{"from": "backlog", "to": "in_progress"}, {"from": "in_progress", "to": "review"},
                  {"from": "review", "to": "done"}, {"from": "review", "to": "in_progress"}]
}"#;

const BOARD: &str = "`/workflow/board`, every page";
const CHANGED: &str = "`/workflow/advance`, then the board";

/// What was measured of one board.
pub struct Boards {
    /// Pages on it.
    pub pages: usize,
    /// Each question, with its answers from the second time on.
    pub asked: Vec<Asked>,
}

/// Measures a board with the pages of the plan.
///
/// # Errors
/// When the server fails or answers something wrong, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Boards> {
    let pages = extent.plan.pages.count;
    run.report(&format!("a board of {pages} pages"));
    let root = run.path("board");
    plant(run, &root, pages)?;
    run.flush_disk()?;
    let log = run.path("board.log");
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let server = ServerProcess::start(run, place)?;
    server.wait_until_idle(run)?;
    let mut client = BenchClient::connect(server.address())?;
    let answer: Value = serde_json::from_slice(&client.get("/api/svc/workflow/board/work")?)?;
    let on_board: usize = STATES.iter().filter_map(|state| answer["board"][*state].as_array()).map(Vec::len).sum();
    ensure!(on_board == pages, "{on_board} of {pages} pages are on the board");
    let mut ask = |_: usize| -> Result<()> { client.get("/api/svc/workflow/board/work").map(drop) };
    let mut asked = vec![measured(run, BOARD, extent.plan.search_round, &mut ask)?];
    let mut advance = |number: usize| -> Result<()> {
        // A page in `review` goes back to work, and to review again.
        let target = if number.is_multiple_of(2) { "in_progress" } else { "review" };
        client.post("/api/svc/workflow/advance", &json!({ "path": page(2), "target_state": target }))?;
        client.get("/api/svc/workflow/board/work").map(drop)
    };
    asked.push(measured(run, CHANGED, extent.renames, &mut advance)?);
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(Boards { pages, asked })
}

fn page(number: usize) -> String {
    format!("work/{}/{number}.md", number / 100)
}

/// Writes pages in all states; one in eight waits for another.
fn plant(run: &BenchRun, root: &Path, pages: usize) -> Result<()> {
    std::fs::create_dir_all(root.join(".svc/workflows"))?;
    std::fs::write(root.join(".svc/workflows/work.json"), DEFINITION)?;
    for number in 0..pages {
        let path = root.join(page(number));
        if number.is_multiple_of(100) {
            run.check_stop()?;
            std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        }
        let state = STATES[number % STATES.len()];
        let blockers = if number.is_multiple_of(8) {
            format!("blocked_by: [{}]\n", page((number * 7 + 1) % pages))
        } else {
            String::new()
        };
        let text = format!(
            "---\ntitle: Work number {number}\nworkflow: work\nstate: {state}\npriority: {}\nassignee: ada\ntags: [work]\n{blockers}---\n\n\
             # Work number {number}\n\nWhat is to be done, in a sentence or two.\n",
            number % 5 + 1
        );
        std::fs::write(path, text)?;
    }
    Ok(())
}

impl Boards {
    /// The board at its p50.
    pub fn judged(&self) -> Option<Duration> {
        self.asked.iter().find(|asked| asked.name == BOARD)?.later.percentile(0.5)
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        asked::table("boards", "a workflow's board", &[(self.pages, &self.asked)])
    }
}
