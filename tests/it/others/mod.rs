//! A person with plain git in the root while agents write: nobody's work is lost, and everything
//! agrees afterwards.

mod audit;
mod commands;
mod person;
mod writers;

use crate::space::{TestSpace, folder, wait};
use person::Person;

/// How often a person does something; SVCFS_OTHERS_TIMES as often on a machine that has the night.
fn rounds(short: usize) -> std::ops::Range<usize> {
    let times = std::env::var("SVCFS_OTHERS_TIMES").map_or(1, |times| times.parse().unwrap());
    0..short * times
}

/// A watched space with some pages that are committed, and the person at its root.
fn shared_space() -> (TestSpace, Person) {
    let folder = folder();
    let root = folder.path().join("root");
    std::fs::create_dir(root.join("notes")).unwrap();
    for number in 0..20 {
        std::fs::write(root.join(format!("notes/{number}.md")), format!("# Note {number}\n")).unwrap();
    }
    let space = TestSpace::watched(folder);
    let person = Person::at(&root);
    wait::until("git status is clean", || person.tries(&["status", "--porcelain"]).unwrap().is_empty());
    (space, person)
}
