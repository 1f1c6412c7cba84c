//! Listings: where they begin and go on, and whose everything is.

use super::*;

impl Served {
    /// What a listing tells together.
    fn prefixes(&self, query: &str) -> Vec<String> {
        let told = self.get(&format!("/default?{query}")).all("CommonPrefixes");
        told.iter().map(|told| told.replace("<Prefix>", "").replace("</Prefix>", "")).collect()
    }
}

#[test]
fn a_listing_starting_inside_a_common_prefix_includes_it() {
    let served = Served::new();
    ["L/y/1", "L/z/1", "L/z/2", "L/z/m/1", "L/z/m/2", "L/zz/1"].iter().for_each(|key| served.put(key, key));
    let both = ["L/z/", "L/zz/"];
    for listing in ["list-type=2&start-after", "marker", "versions&key-marker"] {
        let behind = |after: &str| served.prefixes(&format!("prefix=L/&delimiter=/&{listing}={after}"));
        for midst in ["L/z", "L/z/0", "L/z/1", "L/z/m", "L/z/m/1"] {
            assert_eq!(behind(midst), both, "{listing}={midst}");
        }
        for end in ["L/z/", "L/z/m/2", "L/z/n"] {
            assert_eq!(behind(end), both[1..], "{listing}={end}");
        }
    }
    // Told once on a page of one, and the next page begins behind all of it.
    let first = served.get("/default?list-type=2&prefix=L/&delimiter=/&max-keys=1&start-after=L/z/1");
    let next = first.all("NextContinuationToken").concat();
    assert_eq!((first.all("KeyCount"), first.all("Prefix")[1..].to_vec()), (vec!["1".into()], vec!["L/z/".into()]));
    assert_eq!(
        served.prefixes(&format!("list-type=2&prefix=L/&delimiter=/&start-after=L/z/1&continuation-token={next}")),
        both[1..]
    );
    // What was removed is told by listings of versions alone.
    ["L/z/m/2", "L/z/2"].iter().for_each(|key| drop(served.send("DELETE", &format!("/default/{key}"), &[], "")));
    assert_eq!(served.prefixes("versions&prefix=L/&delimiter=/&key-marker=L/z/m/1"), both);
    assert_eq!(served.prefixes("list-type=2&prefix=L/&delimiter=/&start-after=L/z/m/1"), both[1..]);
}

#[test]
fn only_issued_continuation_tokens_are_accepted() {
    let served = Served::new();
    ["t/a", "t/b", "t/c"].iter().for_each(|key| served.put(key, key));
    let page = |more: &str| served.get(&format!("/default?list-type=2&prefix=t/&max-keys=1&continuation-token={more}"));
    let next = served.get("/default?list-type=2&prefix=t/&max-keys=1").all("NextContinuationToken").concat();
    assert_eq!(page(&next).all("Key"), ["t/b"]);
    assert_eq!(page("").all("Key"), ["t/a"], "none begins anew");
    for none in ["!!!", "t/a", "t", "dC9h", &next[1..], &next[..next.len() - 1], &format!("{next}AA")] {
        page(none).is(400, "InvalidArgument");
    }
}

#[test]
fn an_owner_is_returned_on_request_and_where_s3_requires_it() {
    let served = Served::new();
    served.put("o/a.md", "# A\n");
    let owners = |target: &str| served.get(target).all("Owner").len();
    assert_eq!(owners("/default?list-type=2&prefix=o/"), 0);
    assert_eq!(owners("/default?list-type=2&prefix=o/&fetch-owner=false"), 0);
    assert_eq!(owners("/default?list-type=2&prefix=o/&fetch-owner=true"), 1);
    assert_eq!(owners("/default?prefix=o/"), 1);
    assert_eq!(served.send("DELETE", "/default/o/a.md", &[], "").status, 204);
    assert_eq!(owners("/default?versions&prefix=o/"), 2);
    assert_eq!(owners("/"), 1);
}
