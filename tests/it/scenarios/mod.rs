//! Scenarios: each is played through every door and with every strategy of versioning, in a new
//! space each time, and must leave the same story.

mod bulk;
mod dry_runs;
mod gathered;
mod history;
mod interleaved;
mod links;
mod names;
mod pages;
mod refusals;
mod scratch;
mod searching;

use crate::protocols::{self, Door, Kind};
use crate::space::story::Story;
use crate::space::{STRATEGIES, TestSpace};

/// Plays a scenario through every door and with every strategy. The story it leaves is the same
/// through each, and equals the committed snapshot; also where commits are gathered, for those who
/// ask about history after each change.
#[track_caller]
pub fn played(name: &str, scenario: impl Fn(&dyn Door, &TestSpace)) {
    let expected = played_with_a_commit_each(name, &scenario);
    for kind in protocols::ALL {
        let Some(space) = kind.gathering_space() else { continue };
        // Shown where the scenario fails.
        println!("through {kind:?} where commits are gathered");
        scenario(&*kind.asking(&space), &space);
        if kind.renames_in_two() && expected.has_renames() {
            // What belongs to one renaming is gathered, or not, as it comes.
            continue;
        }
        assert_eq!(space.story(), expected, "the story through {kind:?} differs where commits are gathered");
    }
}

/// The same only where a change is answered with its own commit made.
#[track_caller]
fn played_with_a_commit_each(name: &str, scenario: impl Fn(&dyn Door, &TestSpace)) -> Story {
    let mut expected: Option<Story> = None;
    for (strategy, kind) in STRATEGIES.into_iter().flat_map(|strategy| protocols::ALL.map(|kind| (strategy, kind))) {
        let Some(space) = kind.space(strategy) else { continue };
        println!("through {kind:?} with {strategy:?}");
        scenario(&*kind.of(&space), &space);
        let story = space.story();
        match &expected {
            None => {
                assert_eq!(kind, Kind::Direct, "the vfs itself sets the story");
                insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
                    insta::assert_snapshot!(name, story.told());
                });
                expected = Some(story);
            }
            Some(expected) => {
                let copied = kind.renames_in_two().then(|| expected.with_renames_in_two());
                assert_eq!(
                    &story,
                    copied.as_ref().unwrap_or(expected),
                    "the story through {kind:?} with {strategy:?} differs from the one of the vfs"
                )
            }
        }
    }
    expected.unwrap()
}
