//! Order, retries and signatures.

use std::time::Duration;

use svcfs_base::{Seq, Timestamp, TreePath, WebhookEvent};
use svcfs_net::{NetError, PostAnswer};

use crate::webhooks::outcome::{AttemptResult, Verdict, is_failing_long};
use crate::webhooks::schedule::Schedule;
use crate::webhooks::signature::{message_id, sign};

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn path(name: &str) -> TreePath {
    TreePath::parse(name).unwrap()
}

#[test]
fn events_of_a_page_wait_for_earlier_ones_and_others_go_on() {
    let mut schedule = Schedule::default();
    let (a, b, c) = (path("a"), path("b"), path("c"));
    for (number, path) in [(1, &a), (2, &b), (3, &a), (4, &c)] {
        schedule.push(number, (path, None), time(0));
    }
    assert_eq!(schedule.take_due(time(1), 9), [1, 2, 4]);
    schedule.retry(1, time(100));
    schedule.finish(2);
    assert_eq!(schedule.take_due(time(50), 9), [] as [i64; 0]);
    assert_eq!(schedule.next_due(), Some(time(100)));
    assert_eq!(schedule.take_due(time(100), 9), [1]);
    schedule.finish(1);
    assert_eq!(schedule.take_due(time(100), 9), [3]);
    schedule.give_back(3);
    assert_eq!((schedule.len(), schedule.in_flight()), (2, 1));
    assert_eq!(schedule.take_due(time(100), 0), [] as [i64; 0]);
    assert_eq!(schedule.take_due(time(100), 1), [3]);
}

#[test]
fn a_rename_belongs_to_both_names() {
    let mut schedule = Schedule::default();
    let (a, b) = (path("a"), path("b"));
    schedule.push(1, (&a, None), time(0));
    schedule.push(2, (&b, None), time(0));
    schedule.push(3, (&b, Some(&a)), time(0));
    schedule.push(4, (&a, None), time(0));
    schedule.push(5, (&b, None), time(0));
    assert_eq!(schedule.take_due(time(1), 9), [1, 2]);
    schedule.finish(1);
    assert_eq!(schedule.take_due(time(1), 9), [] as [i64; 0], "the other name waits");
    schedule.finish(2);
    assert_eq!(schedule.take_due(time(1), 9), [3]);
    schedule.finish(3);
    assert_eq!(schedule.take_due(time(1), 9), [4, 5]);
    schedule.finish(4);
    schedule.finish(5);
    assert_eq!((schedule.len(), schedule.in_flight(), schedule.next_due()), (0, 0, None));
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_notifications() {
    let mut schedule = Schedule::default();
    schedule.push(1, (&path("a"), None), time(100_000));
    schedule.push(2, (&path("b"), None), time(3_700));
    assert_eq!(schedule.take_due(time(100), 9), [1]);
}

#[test]
fn a_webhook_fails_for_a_day_with_repeated_attempts_only() {
    let retry = Verdict::Retry(time(90_005));
    for (since, verdict, failed, is_long) in [
        (Some(time(0)), &Verdict::GivenUp, 0, true),
        (Some(time(0)), &retry, 4, true),
        (Some(time(0)), &retry, 0, false),
        (Some(time(89_000)), &Verdict::GivenUp, 5, false),
        (None, &Verdict::Delivered, 5, false),
    ] {
        assert_eq!(is_failing_long(since, time(90_000), (verdict, failed)), is_long, "{since:?} {verdict:?} {failed}");
    }
}

#[test]
fn errors_do_not_contain_the_address() {
    let (url, reason) = ("https://h.test/TOKEN".to_owned(), "has an invalid port");
    let error = AttemptResult::of(Err(NetError::InvalidUrl { url, reason })).error.unwrap();
    assert!(error.contains(reason) && !error.contains("TOKEN"), "{error}");
}

#[test]
fn ids_of_notifications_differ_by_space_time_and_event() {
    let id = |space, second, event| message_id((space, "hook"), (Seq(7), time(second)), event, &path("a.md"));
    let first = id("default", 1, WebhookEvent::FileUpdated);
    assert_eq!(id("default", 1, WebhookEvent::FileUpdated), first);
    for other in [
        id("other", 1, WebhookEvent::FileUpdated),
        id("default", 2, WebhookEvent::FileUpdated),
        id("default", 1, WebhookEvent::PagePublished),
    ] {
        assert_ne!(other, first);
    }
}

#[test]
fn statuses_are_final_or_retried() {
    let result = |status| AttemptResult::of(Ok(PostAnswer { status, retry_after: None }));
    for status in [200, 201, 204, 299] {
        assert_eq!(result(status).verdict((0, 5), time(0), 0), Verdict::Delivered, "{status}");
    }
    for status in [400, 401, 403, 404, 405, 407, 409, 413, 422, 428, 430, 499] {
        assert_eq!(result(status).verdict((0, 5), time(0), 0), Verdict::GivenUp, "{status}");
    }
    assert_eq!(result(410).verdict((0, 5), time(0), 0), Verdict::Gone);
    for status in [100, 301, 302, 307, 408, 429, 500, 502, 503, 599] {
        assert_eq!(result(status).verdict((0, 5), time(0), 0), Verdict::Retry(time(5)), "{status}");
    }
}

#[test]
fn retries_come_later_and_later_until_they_end() {
    let result = AttemptResult { status: None, error: Some("closed".to_owned()), retry_after: None };
    let delays = [5, 30, 120, 900, 3600, 3600, 3600];
    for (failed, delay) in delays.into_iter().enumerate() {
        let failed = u32::try_from(failed).unwrap();
        assert_eq!(result.verdict((failed, 7), time(0), 0), Verdict::Retry(time(delay)), "{failed}");
        let Verdict::Retry(latest) = result.verdict((failed, 7), time(0), 255) else { panic!("{failed}") };
        assert!(latest >= time(delay) && latest <= time((delay * 5 / 4).min(3600) + 1), "{failed}: {latest}");
    }
    assert_eq!(result.verdict((7, 7), time(0), 0), Verdict::GivenUp);
    assert_eq!(result.verdict((0, 0), time(0), 0), Verdict::GivenUp);
    let patient = AttemptResult { retry_after: Some(Duration::from_secs(60)), ..result.clone() };
    assert_eq!(patient.verdict((0, 7), time(0), 0), Verdict::Retry(time(60)));
    let endless = AttemptResult { retry_after: Some(Duration::from_secs(u64::MAX)), ..result };
    assert_eq!(endless.verdict((0, 7), time(0), 0), Verdict::Retry(time(3600)));
}

/// The example of the specification of Standard Webhooks, and keys that are no base64.
#[test]
fn signatures_are_those_of_standard_webhooks() {
    let (id, timestamp, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
    let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    for secret in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        assert_eq!(sign(secret, id, timestamp, body), signature);
    }
    assert_ne!(sign("not base64, but long", id, timestamp, body), signature);
}
