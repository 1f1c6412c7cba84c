//! Real pages: the archives in `shared/corpora` beside the repository, or where `SVCFS_CORPORA`
//! says.

use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Options, Parser, html};

use super::super::{format, format_changes};

/// The archives that are unpacked; 38,000 short pages take too long for every run.
const ARCHIVES: [&str; 4] = ["owasp-cheatsheets", "rust-book", "foam-docs", "quartz-docs"];

fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The HTML of a body under two sets of extensions.
pub(super) fn html_of(text: &str) -> [String; 2] {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let body = &text[crate::frontmatter::split(&text).body_offset..];
    let common = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM;
    let all = common | Options::ENABLE_MATH | Options::ENABLE_DEFINITION_LIST | Options::ENABLE_HEADING_ATTRIBUTES;
    [common, all].map(|options| {
        let mut rendered = String::new();
        html::push_html(&mut rendered, Parser::new_ext(body, options));
        // white space at the end of a page that ends in an open `<pre>`
        rendered.trim_end().to_owned()
    })
}

#[test]
fn real_pages_render_the_same_when_formatted() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora");
    let corpora = std::env::var_os("SVCFS_CORPORA").map_or(beside, PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    for archive in ARCHIVES.map(|name| corpora.join(format!("{name}.tar.xz"))) {
        if archive.is_file() {
            let unpacked = Command::new("tar").arg("xJf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap();
            assert!(unpacked.success(), "{}", archive.display());
        }
    }
    let mut paths = Vec::new();
    pages(folder.path(), &mut paths);
    let (mut changed, mut differing, mut put_back) = (0, Vec::new(), 0);
    for path in &paths {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let formatted = format(&text);
        changed += usize::from(formatted != text);
        assert_eq!(format(&formatted), formatted, "{} is formatted again", path.display());
        put_back += usize::from(format_changes(&text, &text) != text);
        if html_of(&text) != html_of(&formatted) {
            differing.push(path);
        }
    }
    println!("{} pages, {changed} change when new, {put_back} when put back", paths.len());
    assert_eq!(differing, Vec::<&PathBuf>::new());
}
