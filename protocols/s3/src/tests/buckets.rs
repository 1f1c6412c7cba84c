//! Buckets that clients make and remove, and what every answer says.

use super::*;

/// A server that makes buckets below `buckets`.
fn served(auth: &str) -> Served {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let parents = folder.path().join("buckets");
    Served::of(Arc::clone(&folder), &format!("{auth}[server]\nspace_parents = [\"{}\"]\n", parents.display()))
}

/// Shows: S3-2
#[test]
fn a_bucket_is_made_empty_and_removed_with_its_directory() {
    let served = served("");
    let root = served.folder.path().join("buckets/new-one");
    assert_eq!(served.send("PUT", "/new-one", &[], "").status, 200);
    assert!(root.join(".svc/config.toml").is_file());
    served.send("PUT", "/new-one", &[], "").is(409, "BucketAlreadyOwnedByYou");
    assert_eq!(served.get("/new-one?list-type=2").all("KeyCount"), ["0"]);
    assert_eq!(served.get("/new-one?list-type=2&delimiter=/").all("KeyCount"), ["0"], "no prefix without keys");
    assert!(served.get("/").all("Name").contains(&"new-one".to_owned()));
    assert_eq!(served.send("PUT", "/new-one/docs/a.md", &[], "# A\n").status, 200);
    served.send("DELETE", "/new-one", &[], "").is(409, "BucketNotEmpty");
    assert_eq!(served.get("/new-one/docs/a.md").text(), "# A\n", "it is served as before");
    assert_eq!(served.send("DELETE", "/new-one/docs/a.md", &[], "").status, 204);
    assert_eq!(served.send("DELETE", "/new-one", &[], "").status, 204);
    assert!(!root.exists());
    assert_eq!(std::fs::read_dir(root.parent().unwrap()).unwrap().count(), 0, "nothing is left beside it");
    served.send("DELETE", "/new-one", &[], "").is(404, "NoSuchBucket");
    served.get("/new-one?list-type=2").is(404, "NoSuchBucket");
    assert_eq!(served.send("PUT", "/new-one", &[], "").status, 200, "and made again");
}

/// Shows: S3-2
#[test]
#[expect(clippy::disallowed_methods, reason = "files are put there behind the server")]
fn no_file_is_adopted_or_removed_with_a_bucket() {
    let served = served("");
    let parents = served.folder.path().join("buckets");
    std::fs::create_dir_all(parents.join("old")).unwrap();
    std::fs::write(parents.join("old/a.md"), "# A\n").unwrap();
    served.send("PUT", "/old", &[], "").is(409, "BucketAlreadyExists");
    assert_eq!(served.send("PUT", "/new", &[], "").status, 200);
    for file in ["hidden\u{1}name", ".env", ".svc/rejected/a.md", "deep/er/x"] {
        let path = parents.join("new").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x").unwrap();
        served.send("DELETE", "/new", &[], "").is(409, "BucketNotEmpty");
        std::fs::remove_file(&path).unwrap();
    }
    for name in ["default", "team"] {
        served.send("DELETE", &format!("/{name}"), &[], "").is(403, "AccessDenied");
    }
    assert_eq!(served.send("DELETE", "/new", &[], "").status, 204);
}

#[test]
fn buckets_are_made_only_where_the_settings_say_and_by_who_may() {
    let refused = Served::new();
    refused.send("PUT", "/new", &[], "").is(403, "AccessDenied");
    let served = served("");
    served.send("PUT", "/search", &[], "").is(400, "InvalidBucketName");
    served.send("PUT", "/a.b", &[], "").is(400, "InvalidBucketName");
    served.send("PUT", "/new", &[("x-amz-acl", "public-read")], "").is(501, "NotImplemented");
    let closed = self::served("auth = { type = \"apikey\", api_key = \"secret\" }\n");
    closed.send("PUT", "/new", &[], "").is(403, "AccessDenied");
    assert!(!closed.folder.path().join("buckets/new").exists());
}

#[test]
fn an_error_names_its_request_and_what_it_is_about() {
    let served = Served::new();
    for target in ["/default/a%26b.md", "/nowhere/x", "/default/a.md?abac"] {
        let told = served.send(if target.ends_with("abac") { "PUT" } else { "GET" }, target, &[], "");
        let id = told.header("x-amz-request-id").to_owned();
        assert_eq!((told.all("RequestId"), told.all("HostId").len()), (vec![id], 1), "{}", told.text());
        let path = target.split('?').next().unwrap();
        assert_eq!(told.all("Resource"), [path], "{}", told.text());
    }
    assert_eq!(served.get("/").header("x-amz-request-id").len(), 32);
}

#[test]
fn the_servers_folder_is_no_prefix_while_no_key_lies_below_it() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    for list in ["/default?list-type=2&delimiter=/", "/default?delimiter=/", "/default?versions&delimiter=/"] {
        assert!(!served.get(list).text().contains(".svc/"), "{list}: {}", served.get(list).text());
    }
    served.put(".svc/templates/a.md", "# A\n");
    assert!(served.get("/default?list-type=2&delimiter=/").text().contains("<Prefix>.svc/</Prefix>"));
    for list in ["/default?list-type=2&delimiter=", "/default?delimiter=", "/default?versions&delimiter="] {
        assert!(!served.get(list).text().contains("Delimiter"), "{list}: {}", served.get(list).text());
    }
}

#[test]
fn a_key_not_valid_in_xml_is_neither_removed_nor_echoed() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    let delete = |key: &str| {
        let body = format!("<Delete><Object><Key>a.md</Key></Object><Object><Key>{key}</Key></Object></Delete>");
        served.send("POST", "/default?delete", &[], body)
    };
    for key in ["b&#1;", "b\u{1}", "b&#xB;c", "&#x0;", "\u{ffff}"] {
        let told = delete(key);
        assert_eq!((told.status, served.text("a.md").is_some()), (400, true), "{key:?}: {}", told.text());
        assert!(xml_is_well_formed(&told), "{key:?}: {}", told.text());
    }
    let told = delete("b&#13;c");
    assert!(told.status == 200 && told.text().contains("b&#13;c") && xml_is_well_formed(&told), "{}", told.text());
    for list in ["/default?list-type=2&prefix=a%01", "/default?marker=%1f", "/default?delimiter=%0b&prefix=%0D"] {
        let told = served.get(list);
        assert!(told.status == 200 && xml_is_well_formed(&told), "{list}: {}", told.text());
    }
}

/// Whether an answer has only what XML has.
fn xml_is_well_formed(told: &Reply) -> bool {
    told.text().chars().all(|letter| letter != '\r' && crate::response_info::is_xml_char(letter))
}
