//! What somebody locked over WebDAV: left alone, and free once it is unlocked.

use super::*;

/// Shows: LOCK-2
#[test]
fn a_webdav_locked_page_cannot_change_over_nfs_until_unlocked() {
    let served = Served::new();
    let root = served.root();
    let [begun, page] = ["begun.md", "page.md"].map(|name| served.save(&root, name, "# Page\n"));
    // Written before it was locked, and not saved.
    served.write(&begun, 0, b"# Mine\n", stable_how::UNSTABLE).unwrap();
    ["begun.md", "page.md"].iter().for_each(|name| served.lock(name));
    assert_eq!(served.commit(&begun).unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(served.text(".svc/rejected/begun.md").as_deref(), Some("# Mine\n"));
    let refused = [
        served.write(&page, 0, b"# Mine\n", stable_how::UNSTABLE).map(drop),
        served.write(&page, 0, b"# Mine\n", stable_how::FILE_SYNC).map(drop),
        served.resize(&page, 0),
        served.remove(&root, "page.md"),
        served.rename((&root, "page.md"), (&root, "other.md")),
        served.rename((&root, "begun.md"), (&root, "page.md")),
    ];
    assert_eq!(refused, [Err(nfsstat3::NFS3ERR_ACCES); 6]);
    for name in ["begun.md", "page.md"] {
        assert_eq!(served.text(name).as_deref(), Some("# Page\n"), "{name}");
        assert!(served.server.primary().vfs.end_lease(&path(name), name).unwrap());
    }
    served.write(&page, 2, b"Mine", stable_how::UNSTABLE).unwrap();
    served.commit(&page).unwrap();
    assert_eq!(served.text("page.md").as_deref(), Some("# Mine\n"));
    served.remove(&root, "page.md").unwrap();
    assert_eq!(served.text("page.md"), None);
}
