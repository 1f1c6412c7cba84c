//! `svcfs reindex`

use predicates::str::contains;
use serde_json::json;

use crate::harness::{Place, Running, json_of, refusal, request, svcfs};

#[test]
fn reindex_check_fails_on_a_wrong_index_without_repairing_it() {
    let place = Place::new();
    for (root, word) in [("kb", "quick"), ("other", "brown")] {
        svcfs(&["init", "--root", &place.at(root)]).assert().success();
        place.write(&format!("{root}/fox.md"), &format!("# Fox\n\n{word}\n"));
        svcfs(&["reindex", "--check", "--root", &place.at(root)])
            .assert()
            .success()
            .stdout(contains("equals the old one"));
    }
    // As far in its log as this one, with another page.
    std::fs::copy(place.path("other/.svc/state/index.db"), place.path("kb/.svc/state/index.db")).unwrap();
    let root = place.at("kb");
    for _ in 0..2 {
        let told = refusal(&["reindex", "--check", "--root", &root], 1);
        assert!(told.contains("differs from the old one for 1 page; nothing was replaced"), "{told}");
    }
    let told = svcfs(&["reindex", "--check", "--root", &root, "--json"]).assert().code(1).get_output().stdout.clone();
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["differences"], json!([{ "path": "fox.md", "divergence": "changed" }]));

    let told = refusal(&["reindex", "--root", &root], 1);
    assert!(told.contains("it was replaced"), "{told}");
    assert_eq!(json_of(&["reindex", "--check", "--root", &root, "--json"])["equal"], true);
}

#[test]
fn a_running_server_rebuilds_its_index_while_answering() {
    let place = Place::with_root();
    place.write("kb/fox.md", "# Fox\n\nquick\n");
    let server = Running::serve(&place.at("kb"), &[]);
    let root = place.at("kb");
    svcfs(&["reindex", "--check", "--root", &root]).assert().success().stdout(contains("equals the old one"));
    let told = json_of(&["reindex", "--root", &root, "--json"]);
    assert!(told["equal"] == true && told["pages"] == told["after"]["pages"], "{told}");
    assert!(request(server.url(), "GET", "/api/svc/search?q=quick", "").1.contains("fox.md"));
    server.stop();
}
