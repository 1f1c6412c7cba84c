//! A key with the scope `propose`: its changes go into its draft, and it sees them.

use s3s::dto::*;
use s3s::{Body, S3Result};

use super::direct_calls::request;
use super::*;
use crate::S3Server;

const KEYS: &str = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"full\"\n\
                    [[auth.api_keys]]\nkey = \"agent\"\nscope = \"propose\"\nactor = \"agent\"\n";

struct Keys {
    served: Served,
    protocol: Arc<S3Server>,
}

impl Keys {
    fn new() -> Self {
        let served = Served::with(KEYS);
        let protocol = Arc::new(S3Server::new(Arc::clone(&served.server)));
        Self { served, protocol }
    }

    async fn put(&self, key: &str, name: &str, text: &str, if_match: Option<&str>) -> S3Result<()> {
        let mut input = PutObjectInput { bucket: "default".into(), key: name.into(), ..PutObjectInput::default() };
        input.body = Some(StreamingBlob::from(Body::from(text.to_owned())));
        input.metadata = Some([("mood".to_owned(), "good".to_owned())].into());
        input.if_match = if_match.map(|tag| ETagCondition::ETag(ETag::Strong(tag.to_owned())));
        crate::put_object::put(&self.protocol, request(input, Some(key))).await.map(drop)
    }

    async fn copy(&self, from: &str, to: &str) -> S3Result<()> {
        let mut input = CopyObjectInput::builder();
        input.set_bucket("default".to_owned());
        input.set_key(to.to_owned());
        input.set_copy_source(CopySource::parse(&format!("default/{from}")).unwrap());
        crate::put_object::copy(&self.protocol, request(input.build().unwrap(), Some("agent"))).await.map(drop)
    }

    async fn remove(&self, name: &str) -> S3Result<()> {
        let input = DeleteObjectInput { bucket: "default".into(), key: name.into(), ..DeleteObjectInput::default() };
        crate::delete_objects::delete(&self.protocol, request(input, Some("agent"))).await.map(drop)
    }

    /// A multipart upload of one part.
    async fn upload(&self, name: &str, text: &str) -> S3Result<()> {
        let (bucket, key) = ("default".to_owned(), name.to_owned());
        let input = CreateMultipartUploadInput { bucket: bucket.clone(), key: key.clone(), ..Default::default() };
        let created = crate::multipart_upload::create(&self.protocol, request(input, Some("agent"))).await?;
        let upload_id = created.output.upload_id.unwrap();
        let mut input = UploadPartInput { bucket: bucket.clone(), key: key.clone(), ..UploadPartInput::default() };
        (input.upload_id, input.part_number) = (upload_id.clone(), 1);
        input.body = Some(StreamingBlob::from(Body::from(text.to_owned())));
        let part = crate::multipart_upload::part(&self.protocol, request(input, Some("agent"))).await?;
        let part = CompletedPart { e_tag: part.output.e_tag, part_number: Some(1), ..CompletedPart::default() };
        let multipart_upload = Some(CompletedMultipartUpload { parts: Some(vec![part]) });
        let input = CompleteMultipartUploadInput { bucket, key, upload_id, multipart_upload, ..Default::default() };
        crate::multipart_upload::complete(&self.protocol, request(input, Some("agent"))).await.map(drop)
    }

    /// Content and ETag of an object.
    async fn get(&self, key: &str, name: &str) -> S3Result<(String, String)> {
        let input = GetObjectInput { bucket: "default".into(), key: name.into(), ..GetObjectInput::default() };
        let output = crate::get_object::get(&self.protocol, request(input, Some(key))).await?.output;
        let mut blob = output.body.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = futures_util::StreamExt::next(&mut blob).await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let tag = output.e_tag.unwrap().value().to_owned();
        Ok((String::from_utf8(bytes).unwrap(), tag))
    }

    /// Keys and ETags as a caller lists them.
    async fn list(&self, key: &str) -> Vec<(String, String)> {
        use s3s::S3;
        let input = ListObjectsV2Input { bucket: "default".into(), ..ListObjectsV2Input::default() };
        let operations = crate::operations::S3Operations(Arc::clone(&self.protocol));
        let listed = operations.list_objects_v2(request(input, Some(key))).await.unwrap().output;
        let objects = listed.contents.unwrap_or_default().into_iter();
        let objects = objects.map(|object| (object.key.unwrap(), object.e_tag.unwrap().value().to_owned()));
        objects.filter(|(key, _)| !key.starts_with('.')).collect()
    }

    fn names(listed: &[(String, String)]) -> String {
        listed.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn each_write_of_a_proposing_key_goes_into_its_draft() {
    let keys = Keys::new();
    keys.served.runtime.block_on(async {
        for name in ["a.md", "d/b.md", "e/c.md"] {
            keys.put("full", name, "# One\n", None).await.unwrap();
        }
        let main = keys.list("full").await;
        assert_eq!(keys.list("agent").await, main);
        let old = keys.get("agent", "a.md").await.unwrap().1;
        keys.put("agent", "n/m/o.md", "# New\n", None).await.unwrap();
        keys.put("agent", "a.md", "# Two\n", Some(&old)).await.unwrap();
        let stale = keys.put("agent", "a.md", "# Three\n", Some(&old)).await.unwrap_err();
        assert_eq!(stale.code().as_str(), "PreconditionFailed");
        keys.copy("a.md", "k.md").await.unwrap();
        keys.remove("e/c.md").await.unwrap();
        keys.upload("u.md", "# Upload\n").await.unwrap();
        keys.put("agent", "f/", "", None).await.unwrap();
        let listed = keys.list("agent").await;
        assert_eq!(Keys::names(&listed), "a.md d/b.md f/ k.md n/m/o.md u.md");
        for (name, text) in [("a.md", "# Two\n"), ("k.md", "# Two\n"), ("n/m/o.md", "# New\n"), ("u.md", "# Upload\n")]
        {
            let read = keys.get("agent", name).await.unwrap();
            assert_eq!(read.0, text);
            assert!(listed.contains(&(name.to_owned(), read.1)), "{name}: {listed:?}");
        }
        for name in ["n/m/o.md", "f/"] {
            keys.remove(name).await.unwrap();
        }
        assert_eq!(Keys::names(&keys.list("agent").await), "a.md d/b.md k.md u.md");
        assert_eq!(keys.get("full", "a.md").await.unwrap().0, "# One\n");
        assert_eq!(keys.list("full").await, main);
        let mut input = PutObjectTaggingInput::builder();
        input.set_bucket("default".to_owned());
        input.set_key("a.md".to_owned());
        input.set_tagging(Tagging { tag_set: Vec::new() });
        let tagged = crate::tagging::put(&keys.protocol, request(input.build().unwrap(), Some("agent"))).await;
        let refused = tagged.unwrap_err();
        assert_eq!(refused.code().as_str(), "AccessDenied");
        let server = keys.put("agent", ".svc/schemas/x.json", "{}", None).await.unwrap_err();
        assert!(server.status_code().unwrap().is_client_error(), "{server:?}");
    });
    assert_eq!(keys.served.server.primary().vfs.drafts().len(), 1);
}
