use svcfs_base::Client;

use super::*;

fn freshness() -> IndexFreshness {
    let state = FreshnessState {
        clients: HashMap::new(),
        dropped: Seq(0),
        changes: 0,
        arrivals: VecDeque::new(),
        writer: None,
        last_read: None,
        last_dropped_arrival: 0,
    };
    IndexFreshness::new(state)
}

fn on_connection(connection: u64) -> Caller {
    Caller { client: Client { key: None, connection: Some(connection) }, ..Caller::new(Protocol::Http) }
}

fn with_key(key: u64, connection: u64) -> Caller {
    Caller { client: Client { key: Some(key), connection: Some(connection) }, ..Caller::new(Protocol::Http) }
}

/// A flood of 1,000 changes, one a millisecond, the last of them at the returned moment.
fn flood(freshness: &IndexFreshness) -> Instant {
    let start = Instant::now();
    for number in 1..=1_000 {
        freshness.record_arrival(Seq(number), start + Duration::from_millis(number));
    }
    start + Duration::from_millis(1_000)
}

fn position(freshness: &IndexFreshness, caller: &Caller, now: Instant) -> u64 {
    match freshness.required(caller, (0, now)).0 {
        RequiredFreshness::Position(Seq(position)) => position,
        RequiredFreshness::Everything => panic!("everything is waited for"),
    }
}

/// Shows: IDX-1
#[test]
fn under_load_a_client_waits_only_for_its_own_and_old_changes() {
    let freshness = freshness();
    let now = flood(&freshness);
    let stranger = position(&freshness, &on_connection(9), now);
    // What is older than 400 ms, measured to 25 ms.
    assert!((600..=626).contains(&stranger), "{stranger}");
    freshness.record_accepted(&on_connection(1), Some(Seq(990)), now);
    assert_eq!(position(&freshness, &on_connection(1), now), 990);
    assert_eq!(position(&freshness, &on_connection(2), now), stranger);
    let named = on_connection(3).with_actor(Actor::new("ann"));
    freshness.record_accepted(&named, Some(Seq(995)), now);
    assert_eq!(position(&freshness, &on_connection(4).with_actor(Actor::new("ann")), now), 995);
    assert_eq!(position(&freshness, &on_connection(4).with_actor(Actor::new("bob")), now), stranger);
    freshness.record_accepted(&with_key(7, 5), Some(Seq(997)), now);
    assert_eq!(position(&freshness, &with_key(7, 6), now), 997);
    assert_eq!(position(&freshness, &with_key(8, 6), now), stranger);
}

#[test]
fn protocols_without_connections_are_one_client_each() {
    let freshness = freshness();
    let now = flood(&freshness);
    freshness.record_accepted(&Caller::new(Protocol::Mcp).with_actor(Actor::new("agent:x")), Some(Seq(999)), now);
    assert_eq!(position(&freshness, &Caller::new(Protocol::Mcp), now), 999);
    assert!(position(&freshness, &Caller::new(Protocol::Http), now) < 700);
}

#[test]
fn a_queued_change_is_waited_for_until_it_is_announced() {
    let freshness = freshness();
    let now = flood(&freshness);
    let user = Caller::new(Protocol::Fuse).with_actor(Actor::new("ann"));
    freshness.record_accepted(&user, None, now);
    let (required, queued) = freshness.required(&user, (0, now));
    assert_eq!((required, queued.len()), (RequiredFreshness::Everything, 2));
    // Another one is accepted meanwhile: it is still unknown where it stands.
    freshness.record_accepted(&user, None, now);
    freshness.record_announced(queued, Seq(1_000));
    let (required, queued) = freshness.required(&user, (0, now));
    assert_eq!(required, RequiredFreshness::Everything);
    freshness.record_announced(queued, Seq(1_001));
    assert_eq!(position(&freshness, &user, now), 1_001);
}

/// Shows: IDX-1
#[test]
fn while_few_changes_come_in_all_of_them_are_waited_for() {
    let freshness = freshness();
    let now = flood(&freshness);
    assert_eq!(freshness.required(&on_connection(1), (0, now + QUIET_PERIOD * 2)).0, RequiredFreshness::Everything);
    let quiet = self::freshness();
    (1..=MAX_QUIET_CHANGES).for_each(|number| quiet.record_arrival(Seq(number), now));
    assert_eq!(quiet.required(&on_connection(1), (0, now)).0, RequiredFreshness::Everything);
    quiet.record_arrival(Seq(MAX_QUIET_CHANGES + 1), now);
    assert_eq!(position(&quiet, &on_connection(1), now), 0);
    // One client writes, and the index is not far behind.
    quiet.record_accepted(&on_connection(2), Some(Seq(1)), now - QUIET_PERIOD);
    quiet.record_accepted(&on_connection(2), Some(Seq(MAX_QUIET_CHANGES + 1)), now);
    let read = |unread| (MAX_QUIET_CHANGES + 1 - unread, now);
    assert_eq!(quiet.required(&on_connection(1), read(MAX_UNREAD)).0, RequiredFreshness::Everything);
    assert!(quiet.required(&on_connection(1), read(MAX_UNREAD + 1)).0 != RequiredFreshness::Everything);
    quiet.record_accepted(&on_connection(3), Some(Seq(MAX_QUIET_CHANGES + 1)), now);
    assert!(quiet.required(&on_connection(1), read(MAX_UNREAD)).0 != RequiredFreshness::Everything);
}

#[test]
fn the_age_of_an_index_is_that_of_the_oldest_change_it_lacks() {
    let freshness = freshness();
    let now = flood(&freshness);
    let age = |read| freshness.age(read, now);
    assert_eq!(age(1_000), None);
    let Some(IndexAge::Exactly(found)) = age(900) else { panic!("{:?}", age(900)) };
    assert!((75..=125).contains(&found.as_millis()), "{found:?}");
    assert!(freshness.is_older(Seq(0), Duration::ZERO));
    for number in 0..2_000 {
        freshness.record_arrival(Seq(1_000 + number), now + ARRIVAL_INTERVAL * (number as u32 + 1));
    }
    assert!(matches!(freshness.age(5, now + ARRIVAL_INTERVAL * 2_001), Some(IndexAge::AtLeast(_))));
}

#[test]
fn clients_are_bounded_and_none_of_their_changes_is_missed() {
    let freshness = freshness();
    let now = flood(&freshness);
    for client in 0..2 * MAX_CLIENTS as u64 {
        freshness.record_accepted(&on_connection(client), Some(Seq(900 + client % 100)), now);
        assert!(freshness.state.lock().clients.len() <= MAX_CLIENTS);
    }
    assert!(position(&freshness, &on_connection(0), now) >= 900);
}

#[test]
fn waiting_readers_are_visible_to_the_indexer() {
    let freshness = freshness();
    assert!(!freshness.is_demanded_beyond(Seq(0)));
    freshness.demand(Seq(7));
    freshness.demand(Seq(5));
    assert!(freshness.is_demanded_beyond(Seq(6)) && !freshness.is_demanded_beyond(Seq(7)));
}

/// Shows: IDX-4
#[test]
fn writes_wait_for_a_lagging_index_while_queries_run() {
    let freshness = freshness();
    let now = flood(&freshness);
    let (writer, stranger) = (on_connection(1), on_connection(2));
    freshness.record_accepted(&writer, Some(Seq(1_000)), now);
    let delay = |caller: &Caller, read: u64, now: Instant| {
        freshness.delay_write(caller, (read, now)).map(|delay| delay.position.0)
    };
    assert_eq!(delay(&writer, 0, now), None, "no question was asked");
    freshness.required(&stranger, (0, now));
    let position = delay(&writer, 0, now).unwrap();
    // What is older than 200 ms, measured to 25 ms.
    assert!((800..=826).contains(&position), "{position}");
    assert_eq!(delay(&writer, position, now), None, "the index has read what is old");
    assert_eq!(delay(&stranger, 0, now), None, "it wrote nothing");
    assert_eq!(delay(&writer, 0, now + READ_PERIOD), None, "the last question was long ago");
    let waiting: Vec<_> = (0..20).filter_map(|_| freshness.delay_write(&writer, (0, now))).collect();
    assert_eq!(waiting.len(), MAX_DELAYED_WRITES);
    drop(waiting);
    assert!(delay(&writer, 0, now).is_some());
}
