//! The condition of a tree after any changes, held against one that is worked out from every page.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use svcfs_base::{Permissions, TreePath};

use crate::content_quality::findings::{FindingKind, FindingSeverity, PageFinding};
use crate::content_quality::{ReviewPolicy, find_disputes, messages, page, survey};
use crate::spaces::test_space::{TestSpace, caller};

/// One change, or a question in between.
#[derive(Debug, Clone)]
enum Step {
    Write(String, String),
    Remove(String),
    Rename(String, String),
    Ask,
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![4 => "([ab]/){0,2}[xyz]\\.md", 1 => Just("index.md".to_owned()), 1 => "([ab]/){0,1}p\\.png"]
}

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "title: X\n",
        "title: x\n",
        "aliases: [y, q]\n",
        "review-by: 2025-12-01\n",
        "reviewed: 2025-01-01\n",
        "status: archived\n",
        "source-of-truth: true\ntags: [t]\n",
        "contradicts: x\n",
        "contradicts: \"[[a/y]]\"\n",
    ])
}

fn step() -> impl Strategy<Value = Step> {
    let link = prop_oneof![
        "\\[\\[(a/|b/)?[xyzq]\\]\\]",
        "\\[l\\]\\((\\.\\./)?([ab]/)?[xyz]\\.md\\)",
        "!\\[\\]\\(([ab]/)?p\\.png\\)",
        "\\[d\\]\\([ab]\\)",
        "\\[\\[(p\\.png|a)\\]\\]",
        "word",
    ];
    let fields = prop::collection::btree_map(0..7_u8, field(), 0..3);
    let text = (fields, prop::collection::vec(link, 0..3)).prop_map(|(fields, links)| {
        let mut keys = BTreeSet::new();
        let of_each_key = fields.into_values().filter(|field| keys.insert(field.split(':').next()));
        let fields: String = of_each_key.collect();
        let fields = if fields.is_empty() { fields } else { format!("---\n{fields}---\n") };
        format!("{fields}{}\n", links.join(" "))
    });
    prop_oneof![
        6 => (path(), text).prop_map(|(path, text)| Step::Write(path, text)),
        2 => path().prop_map(Step::Remove),
        2 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => Just(Step::Ask),
    ]
}

/// The answers of `/janitor` and `/analytics`, from every page by itself.
fn recomputed(space: &TestSpace) -> (Value, Value) {
    space.settle();
    let caller = caller();
    let cx = space.cx(&caller);
    let index = &cx.space.index;
    let review = ReviewPolicy::new(cx.now(), cx.settings().janitor.stale_days);
    let (mut findings, mut links) = (Vec::new(), 0);
    let mut titles: BTreeMap<String, Vec<TreePath>> = BTreeMap::new();
    let paths = index.paths(&TreePath::root()).unwrap();
    for path in &paths {
        let (row, of_page) = (index.page(path).unwrap().unwrap(), index.links_out(path).unwrap());
        links += of_page.len();
        findings.extend(page::findings(&cx, &review, (path, &row), &of_page).unwrap());
        let is_linked = paths
            .iter()
            .filter(|other| *other != path)
            .any(|other| index.links_out(other).unwrap().iter().any(|link| link.resolved_path.as_ref() == Some(path)));
        if !is_linked && !survey::is_entry_page(path) {
            findings.push(PageFinding::new(path.clone(), FindingKind::Orphan, messages::ORPHAN));
        }
        titles.entry(row.title.to_lowercase()).or_default().push(path.clone());
    }
    for group in titles.values().filter(|group| group.len() > 1) {
        let of = |path: &TreePath| {
            PageFinding::new(path.clone(), FindingKind::Duplicate, messages::duplicate(group.len() - 1))
        };
        findings.extend(group.iter().map(|path| of(path).with_related(group)));
    }
    for dispute in find_disputes(index, &Permissions::FULL).unwrap() {
        let of = |path: &TreePath| PageFinding::new(path.clone(), FindingKind::Contradiction, dispute.details.clone());
        findings.extend(dispute.pages.iter().map(|path| of(path).with_related(&dispute.pages)));
    }
    let rank = |severity| match severity {
        FindingSeverity::Error => 0,
        FindingSeverity::Warning => 1,
        FindingSeverity::Info => 2,
    };
    findings.sort_by_key(|finding| (rank(finding.severity), finding.path.clone(), finding.kind));
    let pages = |kind| {
        let pages: BTreeSet<_> = findings.iter().filter(|finding| finding.kind == kind).map(|of| &of.path).collect();
        pages.len()
    };
    let broken = findings.iter().filter(|finding| finding.kind == FindingKind::BrokenLink).count();
    let ill: BTreeSet<_> = findings.iter().map(|finding| &finding.path).collect();
    let janitor = json!({
        "stale": pages(FindingKind::Stale), "orphans": pages(FindingKind::Orphan), "broken_links": broken,
        "empty": pages(FindingKind::Empty), "missing_frontmatter": pages(FindingKind::MissingFrontmatter),
        "duplicates": pages(FindingKind::Duplicate), "contradictions": pages(FindingKind::Contradiction),
        "lint_errors": pages(FindingKind::LintError), "schema_violations": 0, "scanned": paths.len(), "healthy": paths.len() - ill.len(), "issues": findings,
    });
    let coverage = if links == 0 { 100.0 } else { ((links - broken) as f64 * 1000.0 / links as f64).round() / 10.0 };
    let analytics = json!({
        "total_pages": paths.len(), "stale_pages": pages(FindingKind::Stale), "orphan_pages": pages(FindingKind::Orphan),
        "broken_links": broken, "empty_pages": pages(FindingKind::Empty),
        "pages_without_frontmatter": pages(FindingKind::MissingFrontmatter), "link_coverage_pct": coverage,
    });
    (janitor, analytics)
}

fn without(mut answer: Value, fields: &[&str]) -> Value {
    let object = answer.as_object_mut().unwrap();
    fields.iter().for_each(|field| drop(object.remove(*field)));
    answer
}

fn answered(space: &TestSpace) -> (Value, Value) {
    space.settle();
    let janitor = space.get("janitor", json!({ "limit": 1000 }));
    let analytics = space.get("analytics", json!({}));
    (without(janitor, &["timestamp", "recommendations", "groups"]), without(analytics, &["recently_updated"]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn health_after_any_changes_equals_a_full_recomputation(steps in prop::collection::vec(step(), 1..20)) {
        let space = TestSpace::new();
        for step in &steps {
            // A step that does not apply is refused and changes nothing.
            let _refused = match step {
                Step::Write(path, text) => space.ask("write", json!({ "path": path, "content": text })),
                Step::Remove(path) => space.ask("delete", json!({ "path": path })),
                Step::Rename(from, to) => space.ask("rename", json!({ "from": from, "to": to })),
                Step::Ask => {
                    prop_assert_eq!(answered(&space), recomputed(&space));
                    continue;
                }
            };
        }
        prop_assert_eq!(answered(&space), recomputed(&space));
        let space = space.again();
        prop_assert_eq!(answered(&space), recomputed(&space));
    }
}
