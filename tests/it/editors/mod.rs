//! Real programs on the mount: one save of a page is one version, under the name of who saved.

mod autosave;
mod files;
mod refused;
mod saves;
mod terminal;
mod trees;

use crate::space::git::{self, Commit};
use crate::space::{TestSpace, me, wait};

/// Who plays: a mounted space and what is in its history so far.
pub struct Desk {
    pub space: TestSpace,
}

impl Desk {
    /// A mounted space with these pages; none, with the reason printed, where nothing can be
    /// mounted or a program is missing.
    pub fn with(program: &str, pages: &[(&str, &str)]) -> Option<Self> {
        if Self::is_missing(program) {
            return None;
        }
        let space = TestSpace::mounted()?;
        let http = crate::protocols::Kind::Http.of(&space);
        for (path, text) in pages {
            http.write(path, text.as_bytes()).unwrap();
        }
        Some(Self { space })
    }

    /// True, with the reason printed, where a program is not installed.
    pub fn is_missing(program: &str) -> bool {
        let found = std::process::Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        let is_missing = !found.is_ok_and(|output| output.status.success());
        if is_missing {
            println!("skipped: `{program}` is not installed");
        }
        is_missing
    }

    /// Every version so far.
    fn log(&self) -> Vec<Commit> {
        self.space.settle();
        let root = self.space.root();
        if git::has_commits(&root) { git::log(&root) } else { Vec::new() }
    }

    /// Runs a command and answers with what it did to history: for each new version the files it
    /// touched.
    #[track_caller]
    pub fn versions_of(&self, command: &str) -> Vec<Vec<(String, String)>> {
        self.versions_while(|| drop(self.space.shell(command)))
    }

    /// Does something and answers with what it did to history.
    #[track_caller]
    pub fn versions_while(&self, work: impl FnOnce()) -> Vec<Vec<(String, String)>> {
        let before = self.log().len();
        work();
        let new = self.log().split_off(before);
        for commit in &new {
            assert_eq!(commit.author, me(), "{commit:?}");
        }
        new.into_iter().map(|commit| commit.files).collect()
    }

    /// Runs a command that must make exactly one version, of this page.
    #[track_caller]
    pub fn saves(&self, command: &str, page: &str) {
        let before = self.log().len();
        let versions = self.versions_while(|| {
            self.space.shell(command);
            // What a program only created is saved when the kernel lets go of it, a moment after
            // the program's close.
            wait::until(&format!("`{command}` makes a version"), || self.log().len() > before);
        });
        let saved = versions.len() == 1 && versions[0].iter().map(|(_, path)| path.as_str()).eq([page]);
        assert!(saved, "`{command}` should have made one version of {page}, and made {versions:?}");
    }
}
