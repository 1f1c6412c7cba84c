use super::*;

fn line(message: &Value) -> Bytes {
    format!("{message}\n").into()
}

fn call(id: u32, tool: &str) -> Bytes {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } }))
}

fn reply(id: u32) -> Bytes {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
}

fn drained(handover: bool) -> Bytes {
    line(&json!({ "jsonrpc": "2.0", "method": DRAINED, "params": { "handover": handover } }))
}

/// A session after its handshake.
fn session() -> (AgentSession, Bytes, Bytes) {
    let mut session = AgentSession::default();
    let initialize = line(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} }));
    let initialized = line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    session.send(&initialize);
    assert!(session.receive(&reply(0)));
    session.send(&initialized);
    (session, initialize, initialized)
}

#[test]
fn requests_after_a_drained_connection_are_all_sent_again() {
    for handover in [false, true] {
        let (mut session, initialize, initialized) = session();
        for request in [call(1, "svc_write"), call(2, "svc_read"), call(3, "svc_append")] {
            session.send(&request);
        }
        assert!(session.receive(&reply(2)));
        assert!(!session.receive(&drained(handover)), "it is not for the agent");
        assert_eq!(session.disconnect(), (ConnectionEnd::Drained { handover }, Vec::new()));
        assert_eq!(session.repeat_handshake(), [initialize, initialized]);
        assert!(session.is_shaking_hands());
        assert!(!session.receive(&reply(0)), "the agent has the answer to its handshake");
        assert!(!session.is_shaking_hands());
        assert_eq!(session.resend_pending(), [call(1, "svc_write"), call(3, "svc_append")]);
        assert!(session.receive(&reply(1)) && session.receive(&reply(3)));
        assert!(!session.has_pending());
    }
}

#[test]
fn only_requests_that_change_nothing_are_sent_again_after_a_crash() {
    for (tool, is_repeatable) in [
        ("svc_read", true),
        ("svc_search", true),
        ("svc_tree", true),
        ("svc_write", false),
        ("svc_append", false),
        ("svc_delete", false),
        ("svc_rename", false),
        ("svc_of_a_newer_server", false),
    ] {
        let (mut session, initialize, initialized) = session();
        session.send(&call(1, tool));
        let (end, answers) = session.disconnect();
        assert_eq!(end, ConnectionEnd::Lost, "{tool}");
        assert_eq!(session.repeat_handshake(), [initialize, initialized]);
        if is_repeatable {
            assert_eq!((answers, session.resend_pending()), (vec![], vec![call(1, tool)]), "{tool}");
        } else {
            assert_eq!(answers[0]["id"], 1, "{tool}");
            assert!(answers[0]["error"]["message"].as_str().unwrap().contains("outcome is unknown"), "{tool}");
            assert!(session.resend_pending().is_empty(), "{tool}");
        }
    }
}

#[test]
fn a_request_that_crashes_every_server_is_refused_at_last() {
    let (mut session, ..) = session();
    session.send(&call(1, "svc_read"));
    let mut crash = || {
        let answers = session.disconnect().1.len();
        session.resend_pending();
        answers
    };
    assert_eq!([crash(), crash(), crash()], [0, 0, 1]);
}

#[test]
fn a_change_that_was_not_sent_survives_a_crash() {
    let (mut session, ..) = session();
    session.send(&call(1, "svc_write"));
    assert!(!session.receive(&drained(false)));
    session.disconnect();
    session.repeat_handshake();
    // The next process crashes before the handshake is complete.
    assert_eq!(session.disconnect(), (ConnectionEnd::Lost, vec![]));
    assert_eq!(session.resend_pending(), [call(1, "svc_write")]);
}

#[test]
fn an_unanswered_handshake_is_sent_again_as_a_request() {
    let mut session = AgentSession::default();
    let initialize = line(&json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {} }));
    session.send(&initialize);
    assert_eq!(session.disconnect().0, ConnectionEnd::Lost);
    assert!(session.repeat_handshake().is_empty());
    assert_eq!(session.resend_pending(), [initialize]);
    assert!(session.receive(&line(&json!({ "jsonrpc": "2.0", "id": "a", "result": {} }))));
}

#[test]
fn a_refused_handshake_is_not_repeated() {
    let mut session = AgentSession::default();
    session.send(&line(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" })));
    assert!(session.receive(&line(&json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32602 } }))));
    session.disconnect();
    assert!(session.repeat_handshake().is_empty() && session.resend_pending().is_empty());
}

#[test]
fn a_batch_is_answered_with_a_batch() {
    let (mut session, ..) = session();
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let write: Value = serde_json::from_slice(&call(1, "svc_write")).unwrap();
    session.send(&line(&json!([write, ping])));
    let (_, answers) = session.disconnect();
    let ids: Vec<_> = answers[0].as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn a_cancelled_request_is_forgotten() {
    let (mut session, initialize, initialized) = session();
    session.send(&call(1, "svc_write"));
    session
        .send(&line(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })));
    assert_eq!(session.disconnect(), (ConnectionEnd::Lost, vec![]));
    assert_eq!(session.repeat_handshake(), [initialize, initialized]);
    assert!(session.resend_pending().is_empty());
}

#[test]
fn a_subscription_is_repeated_but_not_waited_for() {
    let (mut session, ..) = session();
    let listen = line(&json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {} }));
    session.send(&listen);
    assert!(!session.has_pending());
    assert_eq!(session.disconnect(), (ConnectionEnd::Lost, vec![]));
    assert_eq!(session.resend_pending(), [listen]);
}

#[test]
fn lines_that_are_no_messages_pass_unchanged() {
    let (mut session, ..) = session();
    for text in ["", "\n", "nonsense\n", "[", "[1, 2]\n", "null\n", "{}\n", "{\"params\": [1], \"id\": []}\n"] {
        session.send(&Bytes::from(text));
        assert!(session.receive(text.as_bytes()), "{text}");
        assert!(!session.has_pending(), "{text}");
    }
}

#[test]
fn waiting_requests_can_be_refused() {
    let (mut session, ..) = session();
    session.send(&call(1, "svc_read"));
    assert_eq!(session.refuse_pending("no")[0]["error"]["message"], "no");
    assert!(!session.has_pending());
}

#[test]
fn subscriptions_are_repeated_after_the_handshake() {
    let (mut session, initialize, initialized) = session();
    let subscribe = |id: u32, method: &str, uri: &str| {
        line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "uri": uri } }))
    };
    let (first, second) = (
        subscribe(1, "resources/subscribe", "svc://file/a.md"),
        subscribe(2, "resources/subscribe", "svc://file/b.md"),
    );
    let ended = subscribe(3, "resources/unsubscribe", "svc://file/b.md");
    let refused = subscribe(4, "resources/subscribe", "nonsense");
    for (id, request) in [(1, &first), (2, &second), (3, &ended)] {
        session.send(request);
        assert!(session.receive(&line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))));
    }
    session.send(&refused);
    assert!(session.receive(&line(&json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": -32002, "message": "" } }))));
    session.disconnect();
    assert_eq!(session.repeat_handshake(), [initialize, initialized, first]);
    // The agent has the answers already.
    for id in [0, 1] {
        assert!(!session.receive(&line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))));
    }
    assert!(session.receive(&line(&json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated" }))));
}

#[test]
fn subscriptions_are_cancelled_when_the_agent_closes_its_side() {
    let (mut session, ..) = session();
    session.send(&line(&json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {} })));
    session.send(&call(2, "svc_read"));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(session.cancel_subscriptions(), [line(&cancel)]);
    assert!(session.has_pending(), "the other request is awaited");
    assert!(session.receive(&reply(2)));
    assert!(!session.has_pending() && session.cancel_subscriptions().is_empty());
}
