//! What issues 3, 4, 5, 7, 34, 38, 39 and 40 ask for, beside what was measured of it.

use std::time::Duration;

use svcfs_measure::git::HistorySizes;
use svcfs_measure::table::{MarkdownTable, TableCell, column, quotient, text};
use svcfs_measure::writing::{CROWD_CLIENTS, WritingResults};

use crate::Measured;
use crate::answers::{Answers, Judged as JudgedAnswer};
use crate::boards::Boards;
use crate::committer::Committer;
use crate::drafts::Drafts;
use crate::files::Files;
use crate::large_trees::LargeTrees;
use crate::links::Links;
use crate::mounted::Mounted;
use crate::past::Past;
use crate::pauses::Pauses;
use crate::protocols::{Doors, Judged};
use crate::publishing::Publishing;
use crate::questions::Questions;
use crate::ranking::{Engine, Ranking};
use crate::scale::{self, Scale};
use crate::searching::{Judged as JudgedSearch, Searching};
use crate::tasks::Tasks;
use crate::vectors::Vectors;

/// What memory may be at most, in bytes.
const MEMORY: f64 = 150e6;

/// A table of goals: only of what was measured.
pub fn table(measured: &Measured) -> MarkdownTable {
    let columns = vec![
        column("what is asked for", "what"),
        column("goal", "goal"),
        column("measured", "measured"),
        column("met", "met"),
    ];
    let mut goals = Goals(MarkdownTable::new("goals", columns));
    let Measured {
        writing,
        reading: _,
        committer,
        scale,
        large,
        mounted,
        files,
        protocols,
        pauses,
        past,
        links,
        questions,
        ranking,
        searching,
        answers,
        boards,
        publishing,
        large_trees,
        tasks,
        drafts,
        webhooks,
        vectors,
    } = measured;
    writing.iter().for_each(|writing| goals.writing(writing));
    committer.iter().for_each(|committer| goals.committer(committer));
    scale.iter().for_each(|scale| goals.scale(scale));
    large.iter().for_each(|large| goals.large(large));
    mounted.iter().for_each(|mounted| goals.mounted(mounted));
    writing.iter().filter_map(|writing| writing.history.as_ref()).for_each(|left| goals.left(left));
    files.iter().for_each(|files| goals.files(files));
    protocols.iter().for_each(|protocols| goals.protocols(protocols));
    pauses.iter().for_each(|pauses| goals.pauses(pauses));
    past.iter().for_each(|past| goals.past(past));
    links.iter().for_each(|links| goals.links(links));
    questions.iter().for_each(|questions| goals.questions(questions));
    ranking.iter().for_each(|ranking| goals.ranking(ranking));
    searching.iter().for_each(|searching| goals.searching(searching));
    answers.iter().flat_map(Answers::judged).for_each(|goal| goals.answered(goal));
    boards.iter().for_each(|boards| goals.boards(boards));
    publishing.iter().for_each(|publishing| goals.publishing(publishing));
    large_trees.iter().flat_map(LargeTrees::judged).for_each(|goal| goals.answered(goal));
    large_trees.iter().flat_map(LargeTrees::judged_memory).for_each(|goal| goals.memory(goal));
    tasks.iter().flat_map(Tasks::judged).for_each(|goal| goals.answered(goal));
    if let Some((count, rate)) = tasks.as_ref().map(Tasks::rate) {
        let what = format!("`POST /tasks/next` by 64 workers over {count} tasks, per second");
        goals.at_least(&what, (500.0, "500"), rate, TableCell::Rate);
    }
    drafts.iter().flat_map(Drafts::judged).for_each(|goal| goals.answered(goal));
    if let Some(webhooks) = webhooks {
        let what = "webhooks to one receiver, deliveries per second";
        goals.at_least(what, (300.0, "300"), webhooks.rate(), TableCell::Rate);
    }
    vectors.iter().flat_map(Vectors::goals).for_each(|goal| goals.0.add_row(goal));
    goals.0
}

struct Goals(MarkdownTable);

impl Goals {
    fn at_least(
        &mut self,
        what: &str,
        (wanted, told): (f64, &str),
        measured: Option<f64>,
        cell: fn(Option<f64>) -> TableCell,
    ) {
        let is_met = measured.map(|measured| measured >= wanted);
        self.0.add_row([text(what), text(format!("≥ {told}")), cell(measured), TableCell::Flag(is_met)]);
    }

    fn at_most(&mut self, what: &str, (wanted, told): (f64, &str), measured: Option<f64>) {
        let is_met = measured.map(|measured| measured <= wanted);
        self.0.add_row([text(what), text(format!("≤ {told}")), TableCell::Factor(measured), TableCell::Flag(is_met)]);
    }

    fn within(&mut self, what: &str, wanted: Duration, measured: Option<Duration>) {
        let is_met = measured.map(|measured| measured <= wanted);
        let told = if wanted >= Duration::from_secs(1) {
            format!("≤ {} s", wanted.as_secs())
        } else {
            format!("≤ {} ms", wanted.as_millis())
        };
        self.0.add_row([text(what), text(told), TableCell::Time(measured), TableCell::Flag(is_met)]);
    }

    fn writing(&mut self, writing: &WritingResults) {
        let rate = writing.http_many.rate();
        let what = format!("{CROWD_CLIENTS} clients, × `git add && git commit`");
        self.at_least(&what, (50.0, "50, aim 100"), quotient(rate, writing.git.rate()), TableCell::Factor);
        let what = format!("{CROWD_CLIENTS} clients, × the same with `core.fsync=all`");
        self.at_least(&what, (50.0, "50, aim 100"), quotient(rate, writing.git_flushed.rate()), TableCell::Factor);
        let flush = writing.bare_append.percentile(0.5);
        let beyond = writing.http_one.percentile(0.5).zip(flush).map(|(write, flush)| write.saturating_sub(flush));
        self.within("1 client, p50 beyond that of one flush", Duration::from_millis(1), beyond);
        let what = format!("bulk of {} pages, one commit, the longest", writing.bulk_pages);
        self.within(&what, Duration::from_millis(300), writing.bulk.longest());
        let what = format!("bulk of {} pages right behind another, p50", writing.bulk_pages);
        self.within(&what, Duration::from_millis(300), writing.bulk_consecutive.percentile(0.5));
    }

    fn committer(&mut self, committer: &Committer) {
        let Committer { driven, taking_turns, alone } = committer;
        let share = quotient(taking_turns.rate(), driven.rate());
        self.at_least(
            &format!("{CROWD_CLIENTS} clients, of the committer by itself"),
            (0.5, "50 %"),
            share,
            TableCell::Share,
        );
        let share = quotient(taking_turns.rate(), alone.rate());
        self.at_least("8 actors taking turns, of one actor", (0.9, "90 %"), share, TableCell::Share);
    }

    fn scale(&mut self, scale: &Scale) {
        let (one, many) = scale.growth();
        let sizes = scale.trees.first().zip(scale.trees.get(scale.sizes - 1));
        let sizes = sizes.map(|(smallest, largest)| (smallest.pages.count, largest.pages.count)).unwrap_or_default();
        for (who, growth) in [("1 client".to_owned(), one), (format!("{CROWD_CLIENTS} clients"), many)] {
            let what = format!("{who}, cost of a write in {} pages × that in {}", sizes.1, sizes.0);
            self.at_most(&what, (1.5, "1.5"), growth);
        }
        let opening = &scale.opening;
        let what = format!("opening {} unchanged pages until the first is read", opening.pages);
        self.within(&what, Duration::from_secs(1), Some(opening.unchanged));
        let what = format!("opening them after `kill -9` with {} unsettled records", opening.unsettled);
        self.within(&what, Duration::from_secs(3), Some(opening.killed));
        let what = format!("most memory while {CROWD_CLIENTS} clients write in {} pages", opening.pages);
        let resident = scale.memory.resident;
        self.0.add_row([
            text(what),
            text("≤ 150 MB"),
            TableCell::Bytes(resident),
            TableCell::Flag(Some(resident as f64 <= MEMORY)),
        ]);
    }

    fn large(&mut self, large: &scale::Measured) {
        let what = format!("{CROWD_CLIENTS} clients in {} pages, pages/s", large.pages.count);
        let runs = large.many.rate();
        self.0.add_row([text(what), text("it runs"), TableCell::Rate(runs), TableCell::Flag(Some(runs.is_some()))]);
    }

    fn mounted(&mut self, mounted: &Mounted) {
        let what = format!("`cp -r` of {} pages, of a mount that passes on", mounted.copied);
        self.at_least(&what, (0.5, "50 %"), mounted.share(), TableCell::Share);
        let what = format!("rename of a folder of {} pages, one commit, the longest", mounted.copied);
        self.within(&what, Duration::from_secs(2), mounted.renamed.longest());
    }

    fn files(&mut self, files: &Files) {
        for goal in files.goals() {
            self.at_most(goal.what, (goal.most, goal.told), goal.measured);
        }
        let beyond = files.beyond_open();
        let is_met = beyond.map(|beyond| beyond < Duration::from_micros(60));
        let what = "open, read 2 KiB, close: p50 beyond the disk's";
        self.0.add_row([text(what), text("< 60 µs"), TableCell::Time(beyond), TableCell::Flag(is_met)]);
        let what = "a write over HTTP until it is read on the mount, the longest";
        self.within(what, Duration::from_millis(10), files.seen_after());
    }

    fn protocols(&mut self, protocols: &Doors) {
        for Judged { what, times } in protocols.judged() {
            self.at_least(&what, (1.0, "1"), times, TableCell::Factor);
        }
    }

    fn left(&mut self, left: &HistorySizes) {
        let HistorySizes { commits, size: (as_left, collected), packs, loose_objects: loose, queries: asked } = left;
        let row = |what: &str, goal: &str, count: usize, most: usize| {
            [
                text(format!("{what} after {commits} commits")),
                text(goal),
                TableCell::Count(count),
                TableCell::Flag(Some(count <= most)),
            ]
        };
        self.0.add_row(row("packs", "≤ 50", *packs, 50));
        self.0.add_row(row("loose objects", "no sprawl: ≤ 1000", *loose, 1_000));
        let ratio = quotient(Some(*as_left as f64), Some(*collected as f64));
        self.at_most("size of `.git` × that after `git gc`", (2.0, "2"), ratio);
        for asked in asked {
            let slower = quotient(asked.after_gc.typical_rate(), asked.before_gc.typical_rate());
            self.at_most(&format!("{}, time × that after `git gc`", asked.name), (2.0, "2, for normal speed"), slower);
        }
    }

    fn pauses(&mut self, pauses: &Pauses) {
        let usual = pauses.writes.percentile(0.5);
        let beyond = |wait: Option<Duration>| wait.zip(usual).map(|(wait, usual)| wait.saturating_sub(usual));
        let most = Duration::from_millis(50);
        self.within("pause of a single writer beyond its p50: p99.9", most, beyond(pauses.writes.percentile(0.999)));
        self.within("pause of a single writer beyond its p50: longest", most, beyond(pauses.writes.longest()));
    }

    fn past(&mut self, past: &Past) {
        let (from_log, blame) = past.slowest();
        let what = "`/changes`, `/timeline`, `/versions`, `/velocity`, feed: slowest p99";
        self.within(what, Duration::from_millis(10), from_log);
        self.within("`/blame`, p99", Duration::from_millis(50), blame);
        let (count, elapsed) = past.undo;
        self.within(&format!("undo of {count} changes"), Duration::from_secs(2), Some(elapsed));
    }

    fn ranking(&mut self, ranking: &Ranking) {
        const WHAT: &str = "search, MRR × that of plain FTS5 with any of the words";
        let (overall, kinds) = ranking.advantage(Engine::PlainAny);
        self.at_least(WHAT, (1.1, "1.1"), overall, TableCell::Factor);
        for (kind, times) in kinds {
            self.at_least(&format!("{WHAT}: {kind}"), (1.0, "1"), times, TableCell::Factor);
        }
    }

    fn searching(&mut self, searching: &Searching) {
        let Some(judged) = searching.judged() else { return };
        let JudgedSearch { pages, rate, update, again, slowest: (p50, p99) } = judged;
        self.at_least(
            &format!("index of {pages} pages, pages a second"),
            (8_000.0, "8000"),
            Some(rate),
            TableCell::Rate,
        );
        self.within(&format!("index of {pages} pages: one changed, p50"), Duration::from_millis(2), update);
        self.within(&format!("index of {pages} pages: opened again and asked"), Duration::from_secs(1), Some(again));
        let what = format!("search with snippets in {pages} pages, after a change");
        self.within(&format!("{what}: slowest p50"), Duration::from_millis(2), p50);
        self.within(&format!("{what}: slowest p99"), Duration::from_millis(15), p99);
    }

    fn answered(&mut self, JudgedAnswer { what, wanted, measured }: JudgedAnswer) {
        let is_met = measured.map(|measured| measured <= wanted);
        let goal = format!("≤ {} ms", wanted.as_secs_f64() * 1e3);
        self.0.add_row([text(what), text(goal), TableCell::Time(measured), TableCell::Flag(is_met)]);
    }

    fn memory(&mut self, (what, wanted, bytes): (String, u64, u64)) {
        let goal = format!("≤ {} MiB", wanted >> 20);
        self.0.add_row([text(what), text(goal), TableCell::Bytes(bytes), TableCell::Flag(Some(bytes <= wanted))]);
    }

    fn questions(&mut self, questions: &Questions) {
        let Some(judged) = questions.judged() else { return };
        let pages = judged.pages;
        let what = format!("`TABLE … WHERE` a field without an index among {pages} pages, the slowest");
        self.within(&what, Duration::from_millis(150), judged.unindexed);
        let what = format!("the same with the index of the field among {pages} pages, p99");
        self.within(&what, Duration::from_millis(10), judged.indexed);
    }

    fn publishing(&mut self, publishing: &Publishing) {
        let [uncached, cached] = publishing.render_times();
        self.within("a page of 12 KiB as HTML over HTTP, not cached, p50", Duration::from_millis(20), uncached);
        let is_met = cached.map(|cached| cached <= Duration::from_micros(200));
        let cells = [text("the same, cached, p50"), text("≤ 200 µs"), TableCell::Time(cached), TableCell::Flag(is_met)];
        self.0.add_row(cells);
        let [ours, theirs] = publishing.rates();
        let share = quotient(ours, theirs);
        self.at_least("published pages/s, of nginx with the same HTML", (0.5, "50 %"), share, TableCell::Share);
    }

    fn boards(&mut self, boards: &Boards) {
        let what = format!("board of a workflow with {} pages, p50", boards.pages);
        self.within(&what, Duration::from_millis(20), boards.judged());
    }

    fn links(&mut self, links: &Links) {
        let Some(judged) = links.judged() else { return };
        let pages = judged.pages;
        let what = format!("`/backlinks` of a page with few, among {pages} pages, p99");
        self.within(&what, Duration::from_millis(2), judged.backlinks);
        self.within(&format!("`/tree` of a folder among {pages} pages, p99"), Duration::from_millis(2), judged.folder);
        let what = format!("questions about the graph of {pages} pages, nothing changed: slowest p50");
        self.within(&what, Duration::from_millis(10), judged.graph);
        let what = format!("rename of a hub with {} backlinks, the longest", judged.at_hub);
        self.within(&what, Duration::from_secs(2), judged.hub);
    }
}
