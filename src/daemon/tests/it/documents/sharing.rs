//! The examples of docs/sharing.md.

use super::{assert_printed_as_documented, block};
use crate::harness::{Place, Running, svcfs};

#[test]
fn comments_and_shares_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    for test in ["comments", "shares"] {
        let typed = block("docs/sharing.md", test);
        assert_printed_as_documented(&place, &typed, &[("127.0.0.1:3333", &address)]);
    }
    server.stop();
}
