//! Operations, asked of the door itself: by the name of a key without its signature.

use s3s::S3Request;
use s3s::auth::{Credentials, SecretKey};
use s3s::dto::ListObjectVersionsInput;
use svcfs_config::KeyDigest;

use super::*;

/// A request, by the key whose text this is.
fn request<T>(input: T, key: Option<&str>) -> S3Request<T> {
    let credentials = key.map(|key| Credentials {
        access_key: svcfs_config::edit::id_of(&KeyDigest::of(key)),
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

#[test]
fn with_a_key_of_a_folder_a_marker_beyond_it_tells_nothing_of_what_is_there() {
    let key = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"docs\"\nprefix = \"docs\"\n";
    let served = Served::with(key);
    let door = Arc::new(crate::Door::of(Arc::clone(&served.server)));
    let vfs = &served.server.primary().vfs;
    let versions = |path: &str| {
        let path = TreePath::parse(path).unwrap();
        for text in ["# 1\n", "# 2\n"] {
            vfs.apply(&Caller::new(Door::Http), Change::put(path.clone(), text)).unwrap();
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
        let listed = served.runtime.block_on(crate::versions::list(&door, request(input, Some("docs")))).unwrap();
        listed.output.versions.unwrap().into_iter().filter_map(|version| version.version_id).collect::<Vec<_>>()
    };
    assert_eq!(listed("other/secret.md", &others[0]), [""; 0]);
    assert_eq!(listed("docs/a.md", &own[0]), [own[1].clone()]);
}
