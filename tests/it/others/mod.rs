//! A person with plain git in the root while agents write: nobody's work is lost, and everything agrees afterwards.

mod audit;
mod commands;
mod person;
mod writers;

use crate::space::{TestSpace, folder, wait};
use person::Person;

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
