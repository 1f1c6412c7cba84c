use std::collections::BTreeSet;
use std::path::Path;

use super::{COMMON, DEFAULT, TEMPLATES, Template, TemplateFile};

/// Everything in `templates/`, as paths relative to it.
fn sources() -> BTreeSet<String> {
    fn walk(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
        for entry in folder.read_dir().unwrap().map(Result::unwrap) {
            let path = format!("{below}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{path}/"), found);
            } else {
                found.insert(path);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates"), "", &mut found);
    found
}

fn pages() -> impl Iterator<Item = (&'static Template, &'static TemplateFile)> {
    TEMPLATES.iter().flat_map(|template| template.files().map(move |file| (template, file)))
}

#[test]
fn no_file_is_forgotten() {
    let common = COMMON.iter().map(|file| {
        let path = file
            .path
            .strip_prefix(".svc/")
            .map_or(file.path.trim_start_matches('.').to_owned(), |path| format!("dot-svc/{path}"));
        format!("common/{path}")
    });
    let own = TEMPLATES
        .iter()
        .flat_map(|template| template.pages.iter().map(move |page| format!("{}/{}", template.id, page.path)));
    let definitions = TEMPLATES.iter().flat_map(|template| {
        let source =
            move |file: &TemplateFile| format!("{}/{}", template.id, file.path.replacen(".svc/", "dot-svc/", 1));
        template.definitions.iter().map(source)
    });
    assert_eq!(common.chain(own).chain(definitions).collect::<BTreeSet<_>>(), sources());
}

#[test]
fn template_ids_match_the_contract_and_include_the_default() {
    let ids: Vec<_> = TEMPLATES.iter().map(|template| template.id).collect();
    assert_eq!(ids, ["knowledge", "wiki", "runbook", "research", "tasks", "blank"]);
    assert_eq!(Template::find(DEFAULT).unwrap().id, DEFAULT);
    assert_eq!(Template::find("Knowledge"), None);
}

#[test]
fn server_state_is_excluded_from_git() {
    let ignored = COMMON.iter().find(|file| file.path == ".gitignore").unwrap().content;
    assert!(ignored.lines().any(|line| line == ".svc/state/"));
}

#[test]
fn every_page_has_a_title_and_ends_with_one_newline() {
    for (_, file) in pages() {
        let path = file.path;
        assert!(file.content.ends_with('\n') && !file.content.ends_with("\n\n"), "{path}");
        assert!(!file.content.contains(['\r', '\t']), "{path}");
        assert!(file.content.lines().all(|line| line.trim_end() == line), "{path}");
        if path.ends_with(".md") {
            assert!(file.content.starts_with("---\ntitle: "), "{path}");
        }
    }
}
