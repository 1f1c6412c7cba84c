//! What becomes of an object and of what is said of it while others write.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use s3s::dto::{CompleteMultipartUploadInput, CompletedMultipartUpload, CompletedPart};

use super::direct_calls::request;
use super::*;

/// How often is tried what goes wrong in a moment only.
const TIMES: usize = 200;

#[test]
fn a_self_copy_does_not_undo_a_concurrent_write() {
    let served = Served::new();
    served.put("a.md", "# 0\n");
    let anew =
        [("x-amz-copy-source", "/default/a.md"), ("x-amz-metadata-directive", "REPLACE"), ("x-amz-meta-mood", "wild")];
    let is_over = AtomicBool::new(false);
    let undone = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let path = TreePath::parse("a.md").unwrap();
            let mut number = 0;
            let mut undone = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let text = format!("# {number}\n");
                let change = Change::put(path.clone(), text.clone());
                served.server.primary().vfs.apply(&Caller::new(Protocol::Http), change).unwrap();
                std::thread::yield_now();
                undone += usize::from(served.text("a.md") != Some(text));
            }
            undone
        });
        for _ in 0..TIMES {
            assert_eq!(served.send("PUT", "/default/a.md", &anew, "").status, 200);
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert_eq!(undone, 0);
    assert_eq!(served.send("HEAD", "/default/a.md", &[], "").header("x-amz-meta-mood"), "wild");
}

#[test]
fn a_self_copy_changes_only_the_metadata_it_names() {
    let served = Served::new();
    let said = [("content-type", "text/x-tide"), ("x-amz-meta-mood", "calm"), ("x-amz-tagging", "a=1")];
    assert_eq!(served.send("PUT", "/default/a.txt", &said, "tide").status, 200);
    let mut seen = 0;
    served.commits(&mut seen);
    let copied = |directive: (&str, &str), said: (&str, &str)| {
        let headers = [("x-amz-copy-source", "/default/a.txt"), directive, said];
        let reply = served.send("PUT", "/default/a.txt", &headers, "");
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.text().contains(&etag_of(b"tide")), "{}", reply.text());
    };
    let told = || {
        let head = served.send("HEAD", "/default/a.txt", &[], "");
        let tags = served.get("/default/a.txt?tagging").all("Value").concat();
        [head.header("content-type").to_owned(), head.header("x-amz-meta-mood").to_owned(), tags]
    };
    copied(("x-amz-metadata-directive", "REPLACE"), ("x-amz-meta-mood", "wild"));
    assert_eq!(told(), ["text/plain", "wild", "1"]);
    copied(("x-amz-tagging-directive", "REPLACE"), ("x-amz-tagging", "a=2"));
    assert_eq!(told(), ["text/plain", "wild", "2"]);
    let refused = [
        ("x-amz-copy-source", "/default/a.txt"),
        ("x-amz-metadata-directive", "REPLACE"),
        ("if-match", "\"x\""),
        ("x-amz-meta-mood", "odd"),
    ];
    served.send("PUT", "/default/a.txt", &refused, "").is(412, "PreconditionFailed");
    assert_eq!(told(), ["text/plain", "wild", "2"]);
    assert_eq!(served.commits(&mut seen), [""; 0], "its content is what it was");
    served.put("made/", "");
    let folder = [("x-amz-copy-source", "/default/made/"), ("x-amz-metadata-directive", "REPLACE")];
    assert_eq!(served.send("PUT", "/default/made/", &folder, "").status, 200);
    assert_eq!(served.keys("&prefix=made"), ["made/"]);
}

#[test]
fn concurrent_writes_keep_content_and_metadata_of_one_writer() {
    let served = Served::new();
    let put = |name: &'static str| {
        let reply = served.send("PUT", "/default/a.txt", &[("x-amz-meta-of", name)], name);
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    for _ in 0..TIMES {
        std::thread::scope(|scope| {
            let put = &put;
            let writing = ["one", "two", "three", "four"].map(|name| scope.spawn(move || put(name)));
            writing.into_iter().for_each(|writing| writing.join().unwrap());
        });
        let got = served.get("/default/a.txt");
        assert_eq!(got.header("x-amz-meta-of"), got.text());
    }
}

#[test]
fn a_write_succeeds_even_if_the_object_is_removed_right_after() {
    let served = Served::new();
    let path = TreePath::parse("a.txt").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _there =
                    served.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::remove(path.clone()));
            }
        });
        let statuses: Vec<u16> =
            (0..TIMES).map(|_| served.send("PUT", "/default/a.txt", &[("x-amz-meta-a", "b")], "tide").status).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    });
}

/// Shows: S3-9
#[test]
#[expect(clippy::disallowed_methods, reason = "a part that the server reads as slowly as the test likes")]
fn completing_an_upload_survives_a_disconnect_and_runs_once() {
    let served = Served::new();
    let id = served.send("POST", "/default/a.txt?uploads", &[], "").all("UploadId").concat();
    let target = format!("/default/a.txt?partNumber=1&uploadId={id}");
    assert_eq!(served.send("PUT", &target, &[], "tide").status, 200);
    let folder = served.folder.path().join("default/.svc/state/s3").join(&id);
    let mut names = std::fs::read_dir(&folder).unwrap().map(|name| name.unwrap().path());
    let part = names.find(|path| path.extension().is_some_and(|extension| extension == "data")).unwrap();
    std::fs::remove_file(&part).unwrap();
    assert!(Command::new("mkfifo").arg(&part).status().unwrap().success());
    let protocol = Arc::new(served.protocol(100));
    let parts = vec![CompletedPart { part_number: Some(1), ..CompletedPart::default() }];
    let mut input = CompleteMultipartUploadInput::builder();
    input.set_bucket("default".to_owned());
    input.set_key("a.txt".to_owned());
    input.set_upload_id(id.clone());
    input.set_multipart_upload(Some(CompletedMultipartUpload { parts: Some(parts) }));
    let (asked, input) = (Arc::clone(&protocol), input.build().unwrap());
    // With one thread, work is done by others, as that of large uploads always is.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.spawn(async move { crate::multipart_upload::complete(&asked, request(input, None)).await });
    // A pipe is open once somebody reads from it, too: the part is being put in.
    let open = move || std::fs::File::options().write(true).open(&part).unwrap();
    let mut pipe = runtime.block_on(async { tokio::task::spawn_blocking(open).await.unwrap() });
    client.abort();
    assert!(runtime.block_on(client).unwrap_err().is_cancelled());
    pipe.write_all(b"tide").unwrap();
    drop(pipe);
    drop(runtime.block_on(protocol.completions.lock(&id)));
    assert_eq!(served.text("a.txt").as_deref(), Some("tide"));
    assert_eq!(served.get("/default?uploads").all("UploadId"), [""; 0], "it is pending no more");
    let path = TreePath::parse("a.txt").unwrap();
    served.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::put(path, "ebb")).unwrap();
    let list = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";
    let again = served.send("POST", &format!("/default/a.txt?uploadId={id}"), &[], list);
    assert_eq!((again.status, served.text("a.txt").as_deref()), (200, Some("ebb")), "{}", again.text());
}
