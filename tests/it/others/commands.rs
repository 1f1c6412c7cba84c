//! Each git command that moves the branch, the index or the tree, as a test of its own.

use std::fs;

use super::audit::{followers_heard, nothing_is_lost, pages_stand_as_written, search_is_right};
use super::person::Person;
use super::writers::{Pace, while_agents_write};
use super::{rounds, shared_space};
use crate::space::git::git;

#[test]
fn a_persons_commits_and_the_agents_commits_lie_on_one_branch() {
    let (space, person) = shared_space();
    let mut by_hand = Vec::new();
    let written = while_agents_write(&space, Pace::Steady, |agents| {
        for number in rounds(4) {
            agents.go_on();
            by_hand.push(person.commits(&format!("notes/by hand {number}.md"), &format!("# By hand {number}\n")));
        }
    });
    nothing_is_lost(&space, &written, &by_hand);
    followers_heard(&space, &by_hand);
    pages_stand_as_written(&space, &written);
    let on_branch = git(&space.root(), &["rev-list", "HEAD"]);
    assert!(by_hand.iter().all(|commit| on_branch.contains(commit)));
}

#[test]
fn an_external_commit_of_all_files_includes_agent_pages() {
    let (space, person) = shared_space();
    let mut by_hand = Vec::new();
    let written = while_agents_write(&space, Pace::Steady, |agents| {
        for number in rounds(3) {
            agents.go_on();
            fs::write(space.root().join("notes/1.md"), format!("# Note 1\n\nchanged {number}\n")).unwrap();
            let subject = format!("all of it {number}");
            person.insists(&["commit", "--all", "--quiet", "--allow-empty", "-m", &subject]);
            by_hand.push(person.newest(&subject));
        }
    });
    nothing_is_lost(&space, &written, &by_hand);
    pages_stand_as_written(&space, &written);
    assert_eq!(space.text("notes/1.md"), format!("# Note 1\n\nchanged {}\n", rounds(3).end - 1));
}

/// Shows: GIT-1
#[test]
fn a_pull_merges_others_work_with_what_agents_write() {
    let (space, person) = shared_space();
    let colleague = Person::with_clone(&space.root(), &space.aside().join("colleague"));
    let mut by_hand = Vec::new();
    let written = while_agents_write(&space, Pace::Thinking, |agents| {
        for number in rounds(3) {
            agents.go_on();
            by_hand.push(colleague.commits(&format!("notes/{number}.md"), &format!("# Note {number}\n\npulled\n")));
            person.merges(&["pull", "--quiet", "--no-rebase", "--no-edit", "../colleague", "main"]);
        }
    });
    nothing_is_lost(&space, &written, &by_hand);
    search_is_right(&space);
    for number in rounds(3) {
        assert_eq!(space.text(&format!("notes/{number}.md")), format!("# Note {number}\n\npulled\n"));
    }
}

#[test]
fn a_pull_with_rebase_puts_agent_commits_on_top_of_upstream() {
    let (space, person) = shared_space();
    let colleague = Person::with_clone(&space.root(), &space.aside().join("colleague"));
    let mut by_hand = Vec::new();
    let written = while_agents_write(&space, Pace::Thinking, |agents| {
        for number in rounds(1) {
            agents.go_on();
            by_hand.push(colleague.commits(&format!("notes/{number}.md"), &format!("# Note {number}\n\npulled\n")));
            person.rebases(&["pull", "--quiet", "--rebase", "../colleague", "main"]);
        }
    });
    nothing_is_lost(&space, &written, &by_hand);
    search_is_right(&space);
}

#[test]
fn a_rebase_preserves_concurrent_agent_writes() {
    let (space, person) = shared_space();
    git(&space.root(), &["branch", "base"]);
    let colleague = Person::with_clone(&space.root(), &space.aside().join("colleague"));
    let by_hand = colleague.commits("notes/3.md", "# Note 3\n\nbelow\n");
    git(&space.root(), &["fetch", "--quiet", "../colleague", "main:base"]);
    let written = while_agents_write(&space, Pace::Thinking, |_| person.rebases(&["rebase", "--quiet", "base"]));
    nothing_is_lost(&space, &written, &[by_hand]);
    search_is_right(&space);
}

/// Shows: GIT-2
#[test]
fn after_a_branch_checkout_agents_write_to_that_branch() {
    let (space, person) = shared_space();
    git(&space.root(), &["branch", "other"]);
    let by_hand = person.commits("notes/4.md", "# Note 4\n\non main\n");
    let written = while_agents_write(&space, Pace::Thinking, |agents| {
        for branch in ["other", "main", "other"] {
            agents.go_on();
            person.insists(&["checkout", "--quiet", branch]);
            assert_eq!(git(&space.root(), &["symbolic-ref", "--short", "HEAD"]).trim(), branch);
        }
    });
    nothing_is_lost(&space, &written, &[by_hand]);
    search_is_right(&space);
    assert_eq!(space.text("notes/4.md"), "# Note 4\n");
    let last = &written[written.len() - 1];
    assert_eq!(space.text(&last.path), last.content);
}

#[test]
fn a_new_branch_takes_what_agents_write_from_then_on() {
    let (space, person) = shared_space();
    let written = while_agents_write(&space, Pace::Steady, |_| {
        person.insists(&["checkout", "--quiet", "-b", "feature"]);
    });
    nothing_is_lost(&space, &written, &[]);
    pages_stand_as_written(&space, &written);
    assert_eq!(git(&space.root(), &["symbolic-ref", "--short", "HEAD"]), "feature\n");
}

/// Shows: GIT-1
#[test]
fn a_stash_takes_the_persons_edit_away_and_brings_it_back() {
    let (space, person) = shared_space();
    let written = while_agents_write(&space, Pace::Thinking, |agents| {
        for number in rounds(2) {
            agents.go_on();
            let text = format!("# Note 5\n\nidea {number}\n");
            fs::write(space.root().join("notes/5.md"), &text).unwrap();
            person.insists(&["stash", "--quiet"]);
            if person.tries(&["rev-parse", "--verify", "--quiet", "refs/stash"]).is_ok() {
                person.insists(&["stash", "pop", "--quiet"]);
            }
            assert_eq!(fs::read_to_string(space.root().join("notes/5.md")).unwrap(), text);
        }
    });
    nothing_is_lost(&space, &written, &[]);
    search_is_right(&space);
    assert_eq!(space.text("notes/5.md"), format!("# Note 5\n\nidea {}\n", rounds(2).end - 1));
}

/// Shows: GIT-10
#[test]
fn housekeeping_of_git_takes_nothing_that_agents_write() {
    let (space, person) = shared_space();
    let written = while_agents_write(&space, Pace::Steady, |agents| {
        for _ in rounds(1) {
            agents.go_on();
            person.insists(&["gc", "--quiet", "--prune=now"]);
            person.insists(&["repack", "-a", "-d", "-f", "--quiet"]);
            person.insists(&["pack-refs", "--all", "--prune"]);
            person.insists(&["prune", "--expire=now"]);
        }
    });
    nothing_is_lost(&space, &written, &[]);
    pages_stand_as_written(&space, &written);
}
