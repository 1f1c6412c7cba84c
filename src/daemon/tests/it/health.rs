//! `svcfs janitor` and `svcfs analytics`

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::json;

use crate::harness::{Place, Running, json_of, svcfs};

const PAGES: [(&str, &str); 2] =
    [("index.md", "---\ntitle: Home\n---\n[[a]] [[nowhere]]\n"), ("a.md", "---\ntitle: A\n---\nText.\n")];

/// A root of two pages, one with a link that leads nowhere.
fn place() -> Place {
    let place = Place::new();
    svcfs(&["init", "--template", "blank", "--root", &place.at("kb")]).assert().success();
    for (name, text) in PAGES {
        place.write(&format!("kb/{name}"), text);
    }
    place
}

#[test]
fn the_janitor_reports_problems_and_fails_on_misleading_pages() {
    let place = place();
    let root = place.at("kb");
    let told = contains("2 pages, 1 without a finding: broken links 1, contradictions 0")
        .and(contains("error     broken_link  index.md  links to `nowhere`, which does not exist"))
        .and(contains("- 1 link is broken: fix the target, or write the page"));
    svcfs(&["janitor", "--root", &root]).assert().code(1).stdout(told).stderr(contains("broken links: 1"));
    place.write("kb/index.md", "---\ntitle: Home\n---\n[[a]]\n");
    svcfs(&["janitor", "--root", &root]).assert().success().stdout(contains("2 pages, 2 without a finding"));
    svcfs(&["janitor", "--root", &root, "--stale-days", "0"]).assert().code(3).stderr(contains("`stale_days`"));
    assert_eq!(json_of(&["janitor", "--json", "--root", &root])["healthy"], 2);
}

#[test]
fn the_numbers_are_the_same_whether_the_root_is_served_or_not() {
    let place = place();
    let root = place.at("kb");
    let numbers = json_of(&["analytics", "--json", "--root", &root]);
    assert_eq!((&numbers["total_pages"], &numbers["link_coverage_pct"]), (&json!(2), &json!(50.0)));
    let told = contains("   2  pages\n").and(contains("50.0  % of links lead somewhere")).and(contains("PATH"));
    svcfs(&["analytics", "--root", &root]).assert().success().stdout(told);
    let running = Running::serve(&root, &[]);
    assert_eq!(json_of(&["analytics", "--json", "--root", &root]), numbers);
    running.stop();
}
