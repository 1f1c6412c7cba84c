//! Registration.

use serde_json::{Value, json};
use svcfs_base::{Caller, Permissions, Protocol};

use crate::spaces::test_space::TestSpace;

fn ask(space: &TestSpace, name: &str, arguments: Value) -> Result<Value, (u16, String)> {
    let caller = Caller::new(Protocol::Http);
    space.ask_as(&caller, name, arguments).map_err(|fault| (fault.kind().http(), fault.message().to_owned()))
}

const SETTINGS: &str = "webhooks.enabled = true\nnet.allow = [\"127.0.0.1\"]\n\
                        webhook_entries = [{ url = \"https://1.1.1.1/a\", secret = \"sixteen characters\" }]\n";

#[test]
fn webhooks_are_registered_listed_and_deleted() {
    let space = TestSpace::with(SETTINGS, &[]);
    let hook = ask(&space, "webhook_register", json!({ "url": "https://1.1.1.1/hook" })).unwrap();
    let (id, secret) = (hook["id"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    assert!(secret.starts_with("whsec_") && secret.len() == 70, "{secret}");
    assert_eq!((&hook["path_glob"], &hook["enabled"]), (&json!("**"), &json!(true)));
    let listed = ask(&space, "webhooks_list", json!({})).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    assert!(!listed.to_string().contains("whsec_") && !listed.to_string().contains("sixteen"), "{listed}");
    assert_eq!(ask(&space, "webhook_deliveries", json!({ "id": id })).unwrap(), json!([]));
    let fixed = listed[0]["id"].as_str().unwrap();
    assert!(listed[0]["is_static"] == true && listed[1]["id"] == id, "{listed}");
    let (status, message) = ask(&space, "webhook_delete", json!({ "id": fixed })).unwrap_err();
    assert!(status == 409 && message.contains("webhook_entries"), "{message}");
    ask(&space, "webhook_delete", json!({ "id": id })).unwrap();
    let hook =
        ask(&space, "webhook_register", json!({ "url": "https://1.1.1.1/x", "event_types": ["write"] })).unwrap();
    assert_eq!(hook["events"], json!(["file.created", "file.updated"]));
    ask(&space, "webhook_delete", json!({ "id": hook["id"] })).unwrap();
    for (name, id) in
        [("webhook_delete", &hook["id"]), ("webhook_test", &json!("x")), ("webhook_deliveries", &json!("x"))]
    {
        assert_eq!(ask(&space, name, json!({ "id": id })).unwrap_err().0, 404, "{name}");
    }
}

#[test]
fn bad_webhooks_are_refused_with_the_field() {
    let space = TestSpace::with(SETTINGS, &[]);
    for (arguments, part) in [
        (json!({ "url": "http://1.1.1.1/" }), "`url`: `http://1.1.1.1` is not encrypted"),
        (json!({ "url": "https://169.254.169.254/" }), "net.allow"),
        (json!({ "url": "https://127.0.0.2/" }), "net.allow"),
        (json!({ "url": "ftp://1.1.1.1/" }), "must begin with"),
        (json!({ "url": "https://1.1.1.1/", "path_glob": "a[" }), "path_glob"),
        (json!({ "url": "https://1.1.1.1/", "path_glob": "/docs/**" }), "path_glob"),
        (json!({ "url": "https://1.1.1.1/", "events": ["bulk"] }), "the events are file.created"),
        (json!({}), "url"),
    ] {
        let (status, message) = ask(&space, "webhook_register", arguments.clone()).unwrap_err();
        assert!(status == 400 && message.contains(part), "{arguments}: {status} {message}");
    }
    ask(&space, "webhook_register", json!({ "url": "http://127.0.0.1:9/" })).unwrap();
    let hook = ask(&space, "webhook_register", json!({ "url": "https://127.0.0.1:9/TOKEN" })).unwrap();
    let test = ask(&space, "webhook_test", json!({ "id": hook["id"] })).unwrap();
    assert!(test["delivered"] == false && test["error"].is_string(), "{test}");
    assert!(!test.to_string().contains("TOKEN"), "{test}");
}

#[test]
fn without_the_setting_the_list_is_empty_and_others_answer_503() {
    let space = TestSpace::new();
    assert_eq!(ask(&space, "webhooks_list", json!({})).unwrap(), json!([]));
    assert_eq!(ask(&space, "webhook_deliveries", json!({ "id": "x" })).unwrap_err().0, 404);
    for (name, arguments) in [
        ("webhook_register", json!({ "url": "https://1.1.1.1/" })),
        ("webhook_delete", json!({ "id": "x" })),
        ("webhook_test", json!({ "id": "x" })),
    ] {
        let (status, message) = ask(&space, name, arguments).unwrap_err();
        assert!(status == 503 && message.contains("webhooks.enabled"), "{name}: {message}");
    }
}

#[test]
fn addresses_of_receivers_need_write_scope() {
    let space = TestSpace::with(SETTINGS, &[]);
    let mut reader = Caller::new(Protocol::Http);
    reader.permissions = Permissions::READ_ONLY;
    for (name, arguments) in [("webhooks_list", json!({})), ("webhook_deliveries", json!({ "id": "x" }))] {
        let fault = space.ask_as(&reader, name, arguments).unwrap_err();
        assert_eq!(fault.kind().http(), 403, "{name}");
    }
}
