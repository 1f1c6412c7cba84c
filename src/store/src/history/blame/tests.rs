use svcfs_base::FileKind;

use super::super::tests::{Fixture, at, fixture};
use super::super::{CommitAuthor, FileEdit};
use super::*;

/// A file's versions, each committed under its own name, oldest first.
fn committed(contents: &[String]) -> (Fixture, Vec<FileVersion>) {
    let fixture = fixture();
    let path = at("d/a.md");
    let mut versions: Vec<FileVersion> = Vec::new();
    for (number, content) in (0_i64..).zip(contents) {
        let actor = Actor::new(&format!("agent-{number}"));
        let time = Timestamp::from_second(1_800_000_000 + number).unwrap();
        let edit = FileEdit::Write { path: &path, kind: FileKind::Regular, content: content.as_bytes() };
        let parent = versions.last().map(|version| version.commit);
        let staged = fixture
            .history
            .stage(parent, &[edit], &CommitAuthor { actor: &actor, email: None, time, message: "m" })
            .unwrap();
        fixture.history.advance(parent, staged.commit).unwrap();
        versions.push(FileVersion {
            path: path.clone(),
            commit: staged.commit,
            actor,
            time,
            blob: ETag::from_content(content.as_bytes()),
        });
    }
    versions.reverse();
    (fixture, versions)
}

/// The commit of each line.
fn by_line(hunks: &[BlameHunk]) -> Vec<String> {
    hunks.iter().flat_map(|hunk| std::iter::repeat_n(hunk.commit.to_string(), hunk.lines)).collect()
}

/// Numbers that look thrown and are the same in every run.
fn dice(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap() % limit
}

/// Versions of a text whose lines come, go, repeat themselves and change places; now and then it is
/// empty or without an end.
fn edited(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed;
    let mut lines: Vec<String> = Vec::new();
    let mut contents: Vec<String> = Vec::new();
    while contents.len() < count {
        for _ in 0..=dice(&mut state, 3) {
            let place = dice(&mut state, lines.len() + 1);
            match dice(&mut state, 8) {
                0..4 => lines.insert(place, format!("line {}", dice(&mut state, 40))),
                4 if !lines.is_empty() => drop(lines.remove(place.min(lines.len() - 1))),
                5 if place < lines.len() => lines[place] = "}".to_owned(),
                6 if lines.len() > 1 => lines.rotate_left(1),
                7 if dice(&mut state, 10) == 0 => lines.clear(),
                _ => lines.insert(place, String::new()),
            }
        }
        let end = if dice(&mut state, 5) == 0 { "" } else { "\n" };
        let content = if lines.is_empty() { String::new() } else { lines.join("\n") + end };
        if contents.last() != Some(&content) {
            contents.push(content);
        }
    }
    contents
}

/// Shows: HIST-3
#[test]
fn lines_are_blamed_on_the_same_versions_as_in_stock_git() {
    for seed in 1..=6 {
        let (fixture, versions) = committed(&edited(seed, 40));
        let told = fixture.git(&["blame", "--line-porcelain", "HEAD", "--", "d/a.md"]);
        let is_hash = |word: &str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let of_git: Vec<String> = told
            .lines()
            .filter(|line| !line.starts_with('\t'))
            .filter_map(|line| line.split(' ').next().filter(|word| is_hash(word)).map(str::to_owned))
            .collect();
        assert_eq!(by_line(&fixture.history.blame_versions(&versions).unwrap()), of_git, "seed {seed}");
    }
}

#[test]
fn cached_blame_gives_the_same_result_as_a_fresh_start() {
    let contents = edited(7, 40);
    let (fixture, versions) = committed(&contents);
    let known = |history: &History| -> Vec<_> {
        // Oldest first, as they are asked for while a page grows; some versions are never asked
        // for.
        (0..versions.len())
            .rev()
            .filter(|at| at % 3 != 1)
            .map(|at| history.blame_versions(&versions[at..]).unwrap())
            .collect()
    };
    let grown = known(&fixture.history);
    for (at, hunks) in (0..versions.len()).rev().filter(|at| at % 3 != 1).zip(&grown) {
        let (anew, _) = History::open(fixture.directory.path(), &[]).unwrap();
        assert_eq!(&anew.blame_versions(&versions[at..]).unwrap(), hunks, "version {at}");
    }
    // An older version is asked for again, and another file of the same name.
    assert_eq!(known(&fixture.history), grown);
    let renamed: Vec<_> =
        versions.iter().map(|version| FileVersion { path: at("other.md"), ..version.clone() }).collect();
    assert_eq!(&fixture.history.blame_versions(&renamed).unwrap(), grown.last().unwrap());
}

#[test]
fn a_hunk_is_a_run_of_lines_of_one_version() {
    let text = |text: &str| text.to_owned();
    let (fixture, versions) = committed(&[text("a\nb\n"), text("a\nx\ny\nb\n")]);
    let hunks = fixture.history.blame_versions(&versions).unwrap();
    let told: Vec<_> = hunks.iter().map(|hunk| (hunk.first_line, hunk.lines, hunk.actor.as_str())).collect();
    assert_eq!(told, [(1, 1, "agent-0"), (2, 2, "agent-1"), (4, 1, "agent-0")]);
    assert_eq!(hunks[1].time, versions[0].time);
    assert_eq!(by_line(&hunks), by_line(&fixture.history.blame(&at("d/a.md"), versions[0].commit).unwrap()));
    assert!(fixture.history.blame_versions(&[]).unwrap().is_empty());
}

#[test]
fn contents_are_alike_when_half_of_their_lines_are() {
    let lines = |range: std::ops::Range<u32>| range.map(|number| format!("{number}\n")).collect::<String>();
    let contents = [lines(0..10), lines(5..10), lines(6..10), String::new()];
    let (fixture, _) = committed(&contents);
    let [ten, five, four, none] = contents.map(|content| ETag::from_content(content.as_bytes()));
    let is_alike = |one, other| fixture.history.are_similar(one, other).unwrap();
    assert!(is_alike(ten, five) && is_alike(five, ten));
    assert!(!is_alike(ten, four) && !is_alike(ten, none) && !is_alike(none, none));
}
