//! The example of docs/canvas.md.

use super::{assert_printed_as_documented, block};
use crate::harness::{Place, Running, svcfs};

#[test]
fn canvases_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    let typed = block("docs/canvas.md", "canvas");
    assert_printed_as_documented(&place, &typed, &[("127.0.0.1:3333", &address)]);
    server.stop();
}
