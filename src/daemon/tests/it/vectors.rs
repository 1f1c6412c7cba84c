//! Search by meaning on a root that `svcfs init` made: no network, no key.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Place, Running, can_mount, eventually, request, svcfs};

const TIDES: &str = "# Tides\n\nThe sea rises and falls twice a day because the moon pulls at the water.\n";
const WAVES: &str = "# Waves\n\nWind makes waves on the water of the sea, and the moon makes the tides.\n";

fn get(server: &Running, target: &str) -> (u16, Value) {
    let (status, body) = request(server.url(), "GET", &format!("/api/svc{target}"), "");
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

fn targets(server: &Running, page: &str) -> Vec<String> {
    let (status, answer) = get(server, &format!("/suggestions?path={page}"));
    let suggestions = answer["suggestions"].as_array().filter(|_| status == 200).cloned().unwrap_or_default();
    suggestions.iter().map(|page| page["target"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_new_root_has_vectors_without_network_and_keys() {
    let place = Place::with_root();
    place.write("kb/sea/tides.md", TIDES);
    place.write("kb/sea/waves.md", WAVES);
    let mut server = Running::serve(&place.at("kb"), &[]);
    let started = Instant::now();
    eventually("the pages are embedded", || {
        targets(&server, "sea/tides.md").first().is_some_and(|it| it == "sea/waves.md")
    });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let (status, embedded) = get(&server, "/embeddings?path=sea/tides.md");
    assert_eq!((status, &embedded["dimensions"]), (200, &256.into()), "{embedded}");
    let (_, metrics) = request(server.url(), "GET", "/metrics", "");
    assert!(metrics.contains("svc_vectors_pending_pages{space=\"default\"} 0"), "{metrics}");
    // Killed and started again: nothing is missing, and what changed meanwhile is found.
    server.signal(Signal::KILL);
    server.ended();
    place.write("kb/sea/swell.md", &WAVES.replace("Waves", "Swell"));
    let server = Running::serve(&place.at("kb"), &[]);
    let has = |page: &str| targets(&server, "sea/tides.md").iter().any(|target| target == page);
    eventually("the new page is embedded", || has("sea/swell.md") && has("sea/waves.md"));
    assert_eq!(request(server.url(), "DELETE", "/api/svc/file?path=sea/waves.md", "").0, 200);
    eventually("the removed page is not suggested", || !has("sea/waves.md"));
    server.stop();
}

#[test]
fn similar_pages_are_links_on_the_mount() {
    if !can_mount() {
        return;
    }
    let place = Place::with_root();
    place.write("kb/sea/tides.md", TIDES);
    place.write("kb/sea/waves.md", WAVES);
    std::fs::create_dir(place.path("mnt")).unwrap();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    eventually("the pages are embedded", || !targets(&server, "sea/tides.md").is_empty());
    let folder = place.path("mnt/.svc/similar/sea/tides.md");
    let mut links: Vec<_> = std::fs::read_dir(folder).unwrap().map(|link| link.unwrap().path()).collect();
    links.sort();
    assert_eq!(links[0].file_name().unwrap(), "001-Waves.md");
    assert_eq!(std::fs::read_to_string(&links[0]).unwrap(), WAVES);
    place.write("mnt/sea/tides.md", &format!("{TIDES}\nSee [[waves]].\n"));
    eventually("a linked page is left out", || !targets(&server, "sea/tides.md").contains(&"sea/waves.md".to_owned()));
    server.stop();
}

#[test]
fn doctor_warns_about_a_language_the_model_does_not_know() {
    let place = Place::with_root();
    let warns = |place: &Place| {
        let output = svcfs(&["doctor", "--root", &place.at("kb"), "--json"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("search-by-meaning")
    };
    svcfs(&["reindex", "--root", &place.at("kb")]).assert().success();
    assert!(!warns(&place));
    let text = "Das Meer hebt und senkt sich zweimal täglich, weil der Mond das Wasser anzieht. ".repeat(50);
    for page in 0..20 {
        place.write(&format!("kb/meer{page}.md"), &format!("# Gezeiten {page}\n\n{text}\n"));
    }
    svcfs(&["reindex", "--root", &place.at("kb")]).assert().success();
    assert!(warns(&place));
}
