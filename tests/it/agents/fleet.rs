//! Many agents at work on one space: no update is lost, and a claim holds for its fence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::crash::random::Random;
use crate::space::client::Client;
use crate::space::{TestSpace, folder, wait};

const AGENTS: usize = 64;
const PAGES: usize = 10_000;
/// Few enough that the agents meet.
const EDITED_PAGES: usize = 100;
const TASKS: usize = 20;
/// From one call of an agent to its next: a model thinks longer.
const PACE: Duration = Duration::from_millis(250);

/// What one agent did.
#[derive(Default)]
struct Work {
    /// Lines that the server acknowledged, by page.
    lines: Vec<(String, String)>,
    /// Tasks with the fence of the claim and the acknowledged line.
    notes: Vec<(String, u64, String)>,
    reads: Vec<Duration>,
    conflicts: usize,
    lost_claims: usize,
}

/// An agent and what it remembers.
struct FleetAgent {
    name: String,
    client: Client,
    random: Random,
    work: Work,
}

impl FleetAgent {
    fn call(&self, tool: &str, mut arguments: Value) -> Result<Value, String> {
        arguments["actor"] = json!(self.name);
        self.client.tool(tool, arguments)
    }

    fn read(&mut self, path: &str) -> Value {
        let started = Instant::now();
        let page = self.client.tool("svc_read", json!({ "path": path })).unwrap();
        self.work.reads.push(started.elapsed());
        page
    }

    /// Appends a line to a page on the condition that it is as it was read.
    fn edit(&mut self) {
        let path = format!("edited/{}.md", self.random.below(EDITED_PAGES));
        let line = format!("- {} wrote line {}", self.name, self.work.lines.len());
        loop {
            let page = self.read(&path);
            let edits = json!([{ "heading": "Lines", "mode": "append", "text": format!("{line}\n") }]);
            match self.call("svc_edit", json!({ "path": path, "if_match": page["etag"], "edits": edits })) {
                Ok(_) => break self.work.lines.push((path, line)),
                Err(refusal) => {
                    assert!(refusal.contains("conflict"), "{refusal}");
                    self.work.conflicts += 1;
                }
            }
        }
    }

    /// Claims a task and writes a note into it; another agent may have it.
    fn work_on_task(&mut self) {
        let path = format!("tasks/{}.md", self.random.below(TASKS));
        let Ok(claim) = self.call("svc_claim", json!({ "path": path })) else {
            self.work.lost_claims += 1;
            return;
        };
        let fence = claim["fence"].as_u64().unwrap();
        let line = format!("fence {fence}: note {} of {}", self.work.notes.len(), self.name);
        let edits = json!([{ "heading": "Notes", "mode": "append", "text": format!("{line}\n") }]);
        self.call("svc_edit", json!({ "path": path, "edits": edits, "fence": fence })).unwrap();
        self.work.notes.push((path.clone(), fence, line));
        // Without the fence of the claim, others are refused.
        let intruder = json!({ "path": path, "content": "mine", "actor": "intruder" });
        let refusal = self.client.tool("svc_write", intruder).unwrap_err();
        assert!(refusal.contains("claim_lost"), "{refusal}");
        self.call("svc_release", json!({ "path": path })).unwrap();
    }

    fn run(mut self, end: Instant) -> Work {
        while Instant::now() < end {
            let started = Instant::now();
            match self.random.below(20) {
                0..14 => {
                    let page = self.random.below(PAGES);
                    self.read(&format!("pages/{page}.md"));
                }
                14..17 => self.edit(),
                17 => self.work_on_task(),
                _ => {
                    let word = format!("topic{}", self.random.below(100));
                    let found = self.client.tool("svc_search", json!({ "query": word })).unwrap();
                    assert!(!found.as_array().is_some_and(Vec::is_empty), "{word}");
                }
            }
            thread::sleep(PACE.saturating_sub(started.elapsed()));
        }
        self.work
    }
}

fn lasts() -> Duration {
    Duration::from_secs(std::env::var("SVCFS_FLEET_SECONDS").map_or(60, |text| text.parse().unwrap()))
}

/// A space with many pages, those that are edited, and tasks.
fn fleet_space() -> TestSpace {
    let folder = folder();
    let root = folder.path().join("root");
    let write = |path: String, text: &str| {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    for page in 0..PAGES {
        let topic = page % 100;
        write(format!("pages/{page}.md"), &format!("# Page {page}\n\nIt is about topic{topic} and others.\n"));
    }
    for page in 0..EDITED_PAGES {
        write(format!("edited/{page}.md"), &format!("# Edited {page}\n\n## Lines\n\n"));
    }
    for task in 0..TASKS {
        write(
            format!("tasks/{task}.md"),
            &format!("---\ntype: task\nstatus: todo\n---\n\n# Task {task}\n\n## Notes\n\n"),
        );
    }
    TestSpace::served(folder)
}

#[test]
fn sixty_four_agents_lose_no_update() {
    let space = fleet_space();
    wait::until("the pages are indexed", || space.client().found("topic99").len() >= 50);
    let end = Instant::now() + lasts();
    let mut random = Random::new(64);
    let work: Vec<Work> = thread::scope(|scope| {
        let start = |at: usize| {
            let (name, client) = (format!("agent-{at}"), space.client());
            let agent = FleetAgent { name, client, random: random.fork(), work: Work::default() };
            scope.spawn(move || agent.run(end))
        };
        let agents: Vec<_> = (0..AGENTS).map(start).collect();
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    let mut lines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, line) in work.iter().flat_map(|work| &work.lines) {
        lines.entry(path).or_default().insert(line);
    }
    for (path, lines) in &lines {
        let text = space.text(path);
        let written: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(written.iter().copied().collect::<BTreeSet<_>>(), *lines, "{path}");
        assert_eq!(written.len(), lines.len(), "a line was written twice: {text}");
    }
    let mut notes = 0;
    for task in 0..TASKS {
        let path = format!("tasks/{task}.md");
        let text = space.text(&path);
        let written: Vec<&str> = text.lines().filter(|line| line.starts_with("fence ")).collect();
        let fence = |line: &&str| line["fence ".len()..line.find(':').unwrap()].parse::<u64>().unwrap();
        assert!(written.iter().map(fence).is_sorted(), "an old fence wrote after a new one: {text}");
        let acknowledged: BTreeSet<&str> = work
            .iter()
            .flat_map(|work| &work.notes)
            .filter(|(page, ..)| *page == path)
            .map(|(.., line)| line.as_str())
            .collect();
        assert_eq!(written.iter().copied().collect::<BTreeSet<_>>(), acknowledged, "{path}");
        notes += written.len();
    }
    assert!(!lines.is_empty() && notes > 0);
    println!("{}", summary(&work));
}

/// The figures of a run.
fn summary(work: &[Work]) -> String {
    let mut reads: Vec<Duration> = work.iter().flat_map(|work| work.reads.iter().copied()).collect();
    reads.sort_unstable();
    let percentile = |share: f64| reads[((reads.len() - 1) as f64 * share) as usize];
    let sum = |count: fn(&Work) -> usize| work.iter().map(count).sum::<usize>();
    let mut text =
        format!("{AGENTS} agents: {} reads, p50 {:?}, p99 {:?}", reads.len(), percentile(0.5), percentile(0.99));
    let edits = sum(|work| work.lines.len());
    let _never = write!(
        text,
        "; {edits} edits, {} conflicts; {} notes under a claim, {} claims refused",
        sum(|work| work.conflicts),
        sum(|work| work.notes.len()),
        sum(|work| work.lost_claims)
    );
    text
}
