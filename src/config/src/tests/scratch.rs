//! Names of files that have no versions by default.

use super::*;

/// What programs and operating systems leave beside pages.
const DROPPINGS: &[&str] = &[
    ".page.md.swp",
    ".page.md.swx",
    ".page.md.swo",
    "page.md~",
    ".#page.md",
    "#page.md#",
    "4913",
    ".goutputstream-A1B2C3",
    "page.md.tmp",
    "film.part",
    ".DS_Store",
    "._page.md",
    "~$report.docx",
    ".fuse_hidden0000000100000001",
    "sedAb12Cd",
    ".page.md.Ab12Cd",
    ".LICENSE.w2vodd",
    "XXFeRvKr",
    "p.md.oKxPmHl",
    "p.md.r1xpmhl",
    "page.md___jb_tmp___",
    "page.md.vsctmp",
    "page.md___jb_old___",
    ".~lock.report.odt#",
    ".~LOCK.Report.ods#",
    ".page.md.kate-swp",
    "page.md.JiRqYb",
    "film.mkv.crdownload",
    "Unconfirmed 12345.crdownload",
    "film.mkv.PART",
    "film.partial",
    "film.mkv.download",
    "film.opdownload",
    ".com.google.Chrome.kQzKbX",
    "thumbs.db",
    "THUMBS.DB",
    "Desktop.ini",
    "$Recycle.Bin",
    "System Volume Information",
    ".ds_store",
    ".Spotlight-V100",
    ".Trashes",
    ".fseventsd",
    ".DocumentRevisions-V100",
    "page.md.sb-1f0a4c3e-Xy12Ab",
    "(A Document Being Saved By TextEdit 2)",
    ".Trash-1000",
    "PAGE.SWP",
    "a.TMP",
];

/// Files of people, some of which look like droppings.
const PAGES: &[&str] = &[
    "page.md",
    ".gitignore",
    "sed.md",
    "sediment.md",
    "sedAb12C",
    "sedAb12Cde",
    "4913.md",
    ".bashrc.backup",
    ".gitignore.Ab12C",
    "a.Ab12Cd",
    "page.md.Ab12Cd",
    "page.md.backup",
    "page.md.README",
    "page.md.Friday",
    "a.b.onLoad",
    "desktop.md",
    "thumbs.md",
    "partial.md",
    "download",
    "___jb_tmp___.md",
    "lock.md",
    ".page.md.Ab12C",
    "XXFeRvKr.md",
    "XXlarger",
    "XXXVIII",
    "p.md.october",
    "p.md.orig",
    "p.md.bak",
    "report.2024.october",
    "job.o1234567",
    "template.md",
    "C#",
    "part",
    "tmp",
    ".obsidian",
];

/// Shows: PATH-2
#[test]
fn the_default_scratch_globs_match_droppings_and_no_pages() {
    let FilesConfig { scratch, .. } = FilesConfig::default();
    let matches = |name: &str| scratch.iter().any(|glob| crate::sections::files::matcher(glob).unwrap().is_match(name));
    for dropping in DROPPINGS {
        assert!(matches(dropping), "{dropping}");
    }
    for page in PAGES {
        assert!(!matches(page), "{page}");
    }
}
