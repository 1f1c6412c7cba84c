//! What is remembered of ETags, and what a listing reads where nothing is.

use std::time::Duration;

use s3s::dto::ListObjectsV2Input;
use svcfs_base::{MAX_FILE_BYTES, Scope};
use svcfs_vfs::PathAttributes;
use svcfs_work::{Lane, Lanes};

use super::direct_calls::{request, waits};
use super::*;
use crate::context::S3RequestContext;
use crate::etags::ETagStore;
use crate::key_walk::ListQuery;
use crate::list_objects::{self, ListOptions};
use crate::object::unread_bytes;
use crate::operations::KeyEncoding;

const MANNER: ListOptions = ListOptions { encoding: KeyEncoding::Plain, owner: None };

impl Served {
    /// A door of its own, that remembers so many ETags, also of what was written just now.
    pub(super) fn protocol(&self, most: usize) -> crate::S3Server {
        crate::S3Server {
            etags: ETagStore::new(most, Duration::ZERO),
            ..crate::S3Server::new(Arc::clone(&self.server))
        }
    }

    fn look(&self, path: &str) -> (TreePath, PathAttributes) {
        let path = TreePath::parse(path).unwrap();
        let attributes = self.server.primary().vfs.stat(Protocol::S3, &path).unwrap();
        (path, attributes)
    }

    /// What a file and its name are of, among these, that would be read.
    fn unread_bytes(&self, asked: &S3RequestContext, keys: &[&str]) -> u64 {
        let looks = keys.iter().map(|key| self.look(key));
        looks.map(|(path, attributes)| unread_bytes(asked, &path, &attributes)).sum()
    }
}

pub(super) fn asked(protocol: crate::S3Server) -> S3RequestContext {
    let mut input = ListObjectsV2Input::builder();
    input.set_bucket("default".to_owned());
    let request = request(input.build().unwrap(), None);
    Arc::new(protocol).authorize(&request, "default", (Scope::Read, "ListObjects")).unwrap()
}

pub(super) fn listing() -> ListQuery {
    ListQuery { limit: 1000, ..ListQuery::default() }
}

/// Shows: S3-5
#[test]
fn listed_objects_are_not_read_again_after_restart_if_unchanged() {
    let served = Served::new();
    let keys = ["a.md", "b/c.md", "d.txt"];
    keys.iter().for_each(|key| served.put(key, "# As long\n"));
    let list = |asked: &S3RequestContext| {
        let told = served.runtime.block_on(list_objects::page(asked, listing(), MANNER)).unwrap();
        told.objects.into_iter().filter_map(|object| Some(object.e_tag?.value().to_owned())).collect::<Vec<_>>()
    };
    let first = asked(served.protocol(100));
    assert_eq!(served.unread_bytes(&first, &keys), 30);
    let etag = etag_of(b"# As long\n");
    assert_eq!(list(&first), [&*etag; 3]);
    assert_eq!(served.unread_bytes(&first, &keys), 0);

    let again = asked(served.protocol(100));
    again.protocol.etags.load(&again.space);
    assert_eq!(served.unread_bytes(&again, &keys), 0);
    // By somebody who takes care that nobody sees it.
    let file = served.folder.path().join("default/d.txt");
    let modified = file.metadata().unwrap().modified().unwrap();
    versions_and_uploads::rewrite(&file, "# Another\n");
    std::fs::File::open(&file).unwrap().set_modified(modified).unwrap();
    assert_eq!(served.unread_bytes(&again, &keys), 10);
    assert_eq!(list(&again), [&*etag, &*etag, &etag_of(b"# Another\n")]);
    let last = asked(served.protocol(100));
    assert_eq!(list(&last), list(&again), "the newest of a path is kept");
    assert_eq!(served.unread_bytes(&last, &keys), 0);
}

#[test]
fn of_more_than_are_remembered_most_are_remembered_all_the_same() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    let asked = asked(served.protocol(100));
    let (_, attributes) = served.look("a.md");
    let paths: Vec<_> = (0..125).map(|number| TreePath::parse(&number.to_string()).unwrap()).collect();
    let etags = &asked.protocol.etags;
    let known = |path: &TreePath| etags.cached((&asked.space, path), &attributes).is_some();
    let mut found = 0;
    for round in 0..20 {
        for path in &paths {
            found += usize::from(round > 0 && known(path));
            etags.insert_etag((&asked.space, path), &attributes, &etag_of(path.as_str().as_bytes()));
        }
        assert_eq!(paths.iter().filter(|path| known(path)).count(), 100, "as many as may be");
    }
    // Whoever forgot the oldest, or all at once, would find none, or few.
    assert!(found > 19 * 125 / 2, "{found}");
}

#[test]
fn a_page_ends_where_too_much_would_be_read_and_goes_on_there() {
    let served = Served::new();
    ["a.txt", "b.txt", "c/d.txt"].iter().for_each(|key| served.put(key, "0123456789"));
    let asked = asked(served.protocol(100));
    let page = |after: &str, most_read: u64| {
        let listing = ListQuery { after: after.to_owned(), ..listing() };
        let told = list_objects::complete_page(&asked, listing.page(&asked).unwrap(), (&MANNER, most_read)).unwrap();
        (told.objects.into_iter().filter_map(|object| object.key).collect::<Vec<_>>(), told.next)
    };
    let next = |key: &str| Some(key.to_owned());
    assert_eq!(page("", 5), (vec!["a.txt".to_owned()], next("a.txt")), "one is told whatever it has");
    assert_eq!(page("", 10), (vec!["a.txt".to_owned(), "b.txt".to_owned()], next("b.txt")), "one is known by now");
    assert_eq!(page("b.txt", 10), (vec!["c/d.txt".to_owned()], None));
    assert_eq!(page("", 0).0.len(), 3, "all are");
}

#[test]
fn a_listing_that_reads_much_takes_no_place_of_what_is_quick() {
    let served = Served::new();
    let half = vec![b'x'; MAX_FILE_BYTES / 2 + 1];
    for key in ["a.bin", "b.bin"] {
        assert_eq!(served.send("PUT", &format!("/default/{key}"), &[], half.clone()).status, 200);
    }
    let protocol =
        crate::S3Server { lanes: Arc::new(Lanes::new(64, 1, Duration::from_secs(600))), ..served.protocol(100) };
    let asked = asked(protocol);
    let list = |prefix: &str| {
        let listing = ListQuery { prefix: prefix.to_owned(), ..listing() };
        let asked = asked.clone();
        async move { list_objects::page(&asked, listing, MANNER).await }
    };
    let (release, released) = std::sync::mpsc::channel();
    served.runtime.block_on(async {
        let other = tokio::spawn({
            let protocol = Arc::clone(&asked.protocol);
            async move { protocol.lanes.run(Lane::Slow, move || released.recv()).await }
        });
        while asked.protocol.lanes.occupancy(Lane::Slow).busy == 0 {
            tokio::task::yield_now().await;
        }
        let mut both = std::pin::pin!(list(""));
        while asked.protocol.lanes.occupancy(Lane::Slow).waiting == 0 {
            assert!(waits(both.as_mut()).await, "it is slow work, and waits for its place");
        }
        assert_eq!(list("a").await.unwrap().objects.len(), 1, "one alone is read at once");
        release.send(()).unwrap();
        assert_eq!(both.await.unwrap().objects.len(), 2);
        other.await.unwrap().unwrap().unwrap();
    });
}
