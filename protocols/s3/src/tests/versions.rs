//! What a listing of versions reads, and how often.

use svcfs_vfs::StoredVersion;

use super::etags::{asked, listing};
use super::*;
use crate::context::S3RequestContext;
use crate::key_walk::ListQuery;
use crate::removal_cache::RemovalCache;
use crate::versions::page;

/// Versions of a path that are known without reading them.
fn known(asked: &S3RequestContext, path: &str) -> Vec<(u64, String)> {
    let kept = asked.space.vfs.stored_versions(&TreePath::parse(path).unwrap()).unwrap();
    let known = |kept: StoredVersion| asked.protocol.etags.cached_version(&asked.space, &kept.content);
    kept.into_iter().filter_map(known).collect()
}

#[test]
fn a_version_is_read_once_for_its_etag_also_by_the_next_server() {
    for strategy in ["git", "cow"] {
        let served = Served::with(&format!("[versioning]\nstrategy = \"{strategy}\"\n"));
        ["1", "22", "333"].iter().for_each(|text| served.put("a.txt", text));
        let first = asked(served.protocol(100));
        assert_eq!(known(&first, "a.txt"), []);
        let all = |asked: &S3RequestContext| {
            let page = page(asked, &listing(), None, u64::MAX).unwrap();
            page.entries.into_iter().map(|(_, size, etag)| (size, etag)).collect::<Vec<_>>()
        };
        let expected = ["333", "22", "1"].map(|text| (text.len() as u64, etag_of(text.as_bytes())));
        assert_eq!(all(&first), expected, "{strategy}");
        first.protocol.etags.save(&first.space);
        let next = asked(served.protocol(100));
        next.protocol.etags.load(&next.space);
        assert_eq!(known(&next, "a.txt").len(), 3, "{strategy}");
        assert_eq!(all(&next), expected, "{strategy}");
    }
}

#[test]
fn a_page_of_versions_ends_at_the_read_limit_and_resumes_there() {
    let served = Served::new();
    [("a.txt", ["1111", "2222", "3333"]), ("b.txt", ["4444", "5555", "6666"])]
        .iter()
        .for_each(|(key, texts)| texts.iter().for_each(|text| served.put(key, text)));
    let asked = asked(served.protocol(100));
    let (mut told, mut behind, mut pages) = (Vec::new(), (String::new(), None::<String>), 0);
    loop {
        let listing = ListQuery { after: behind.0.clone(), ..listing() };
        let page = page(&asked, &listing, behind.1.as_deref(), 9).unwrap();
        assert!(
            !page.entries.is_empty() && known(&asked, "a.txt").len() + known(&asked, "b.txt").len() <= told.len() + 2
        );
        told.extend(page.entries.into_iter().map(|(entry, ..)| entry.id));
        pages += 1;
        let Some(next) = page.next else { break };
        behind = next;
    }
    assert_eq!(pages, 3, "two versions are read for each");
    let whole = page(&asked, &listing(), None, 0).unwrap();
    assert_eq!(whole.entries.into_iter().map(|(entry, ..)| entry.id).collect::<Vec<_>>(), told, "all are known now");
    assert_eq!(served.get("/default?versions").all("VersionId"), told);
}

#[test]
fn only_new_removals_are_queried_again() {
    let served = Served::new();
    let space = served.server.primary();
    let removals = RemovalCache::new(4);
    assert!(removals.refresh(space).unwrap().by_key.is_empty());
    let remove = |key: &str| {
        served.put(key, "# Gone\n");
        served.send("DELETE", &format!("/default/{key}"), &[], "").header("x-amz-version-id").to_owned()
    };
    let told = || {
        let removed = removals.refresh(space).unwrap();
        let ids = removed.by_key.values().flatten().map(|(id, _)| id.to_string());
        (removed.by_key.keys().cloned().collect::<Vec<_>>(), ids.collect::<Vec<_>>())
    };
    let first = remove("a.md");
    assert_eq!(told(), (vec!["a.md".to_owned()], vec![first.clone()]));
    let [one, other] = [(); 2].map(|()| removals.refresh(space).unwrap());
    assert!(Arc::ptr_eq(&one, &other), "nothing is new, and nothing is made again");
    let second = remove("b.md");
    assert_eq!(told(), (vec!["a.md".to_owned(), "b.md".to_owned()], vec![first, second]));
    // However long it goes on, the newest are known, and not all that ever were.
    for number in 0..20 {
        let id = remove(&format!("{number}.md"));
        let (keys, ids) = told();
        assert!(ids.contains(&id) && keys.len() <= 8, "{keys:?}");
    }
}
