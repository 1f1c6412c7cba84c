//! Operations, asked of the door itself: by the name of a key without its signature, and one step
//! at a time.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use s3s::S3Request;
use s3s::auth::{Credentials, SecretKey};
use s3s::dto::{AbortMultipartUploadInput, CopyObjectInput, CopySource, ListObjectVersionsInput};
use svcfs_base::MAX_FILE_BYTES;
use svcfs_config::KeyDigest;
use svcfs_work::{Lane, Lanes};

use super::*;

/// A request, by the key whose text this is.
pub(super) fn request<T>(input: T, key: Option<&str>) -> S3Request<T> {
    let credentials = key.map(|key| Credentials {
        access_key: svcfs_config::edit::key_id(&KeyDigest::from_key(key)),
        secret_key: SecretKey::from("checked already"),
    });
    S3Request {
        input,
        method: http::Method::GET,
        uri: http::Uri::from_static("/"),
        headers: HeaderMap::new(),
        extensions: http::Extensions::new(),
        credentials,
        region: None,
        service: None,
        trailing_headers: None,
    }
}

/// Goes on with something as far as it comes; whether it waits there.
pub(super) async fn waits<T>(mut asked: Pin<&mut impl Future<Output = T>>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await
}

#[test]
fn a_marker_outside_a_folder_key_reveals_no_existing_keys() {
    let key = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"docs\"\nprefix = \"docs\"\n";
    let served = Served::with(key);
    let protocol = Arc::new(crate::S3Server::new(Arc::clone(&served.server)));
    let vfs = &served.server.primary().vfs;
    let versions = |path: &str| {
        let path = TreePath::parse(path).unwrap();
        for text in ["# 1\n", "# 2\n"] {
            vfs.apply(&Caller::new(Protocol::Http), Change::put(path.clone(), text)).unwrap();
        }
        vfs.versions(&path).unwrap().iter().map(|version| version.hash.to_string()).collect::<Vec<_>>()
    };
    let (own, others) = (versions("docs/a.md"), versions("other/secret.md"));
    let listed = |marker: &str, version: &str| {
        let input = ListObjectVersionsInput {
            bucket: "default".to_owned(),
            key_marker: Some(marker.to_owned()),
            version_id_marker: Some(version.to_owned()),
            ..ListObjectVersionsInput::default()
        };
        let listed = served.runtime.block_on(crate::versions::list(&protocol, request(input, Some("docs")))).unwrap();
        listed.output.versions.unwrap().into_iter().filter_map(|version| version.version_id).collect::<Vec<_>>()
    };
    assert_eq!(listed("other/secret.md", &others[0]), [""; 0]);
    assert_eq!(listed("docs/a.md", &own[0]), [own[1].clone()]);
}

#[test]
fn an_abort_waits_for_the_completion_that_is_in_progress() {
    let served = Served::new();
    let protocol = Arc::new(crate::S3Server::new(Arc::clone(&served.server)));
    let id = served.send("POST", "/default/a.md?uploads", &[], "").all("UploadId").concat();
    let input = AbortMultipartUploadInput {
        bucket: "default".to_owned(),
        key: "a.md".to_owned(),
        upload_id: id.clone(),
        ..AbortMultipartUploadInput::default()
    };
    let folder = served.folder.path().join("default/.svc/state/s3").join(&id);
    served.runtime.block_on(async {
        let completions = protocol.completions.lock(&id).await;
        let mut aborted = pin!(crate::multipart_upload::abort(&protocol, request(input, None)));
        assert!(waits(aborted.as_mut()).await && folder.exists());
        drop(completions);
        aborted.await.unwrap();
    });
    assert!(!folder.exists());
}

#[test]
fn a_large_copy_takes_no_place_of_what_is_quick() {
    let served = Served::new();
    let lanes = Arc::new(Lanes::new(64, 1, Duration::from_secs(600)));
    let protocol = Arc::new(crate::S3Server { lanes, ..crate::S3Server::new(Arc::clone(&served.server)) });
    assert_eq!(served.send("PUT", "/default/large.bin", &[], vec![b'x'; MAX_FILE_BYTES + 1]).status, 200);
    served.put("small.md", "# Small\n");
    let copy = |from: &str, to: &str| {
        let mut input = CopyObjectInput::builder();
        input.set_bucket("default".to_owned());
        input.set_key(to.to_owned());
        input.set_copy_source(CopySource::parse(&format!("default/{from}")).unwrap());
        crate::put_object::copy(&protocol, request(input.build().unwrap(), None))
    };
    let (release, released) = std::sync::mpsc::channel();
    served.runtime.block_on(async {
        let other = tokio::spawn({
            let protocol = Arc::clone(&protocol);
            async move { protocol.lanes.run(Lane::Slow, move || released.recv()).await }
        });
        while protocol.lanes.occupancy(Lane::Slow).busy == 0 {
            tokio::task::yield_now().await;
        }
        let mut large = pin!(copy("large.bin", "copy.bin"));
        assert!(waits(large.as_mut()).await, "it is slow work, and waits for its place");
        copy("small.md", "copy.md").await.unwrap();
        release.send(()).unwrap();
        large.await.unwrap();
        other.await.unwrap().unwrap().unwrap();
    });
    assert_eq!(
        served.send("HEAD", "/default/copy.bin", &[], "").header("content-length"),
        (MAX_FILE_BYTES + 1).to_string()
    );
}
