use svcfs_base::Kind;

use super::*;

fn set(durability: Durability, content: Bytes) -> QueuedSet {
    let path = TreePath::parse("page.md").unwrap();
    QueuedSet {
        actor: Actor::new("eve"),
        protocol: Protocol::Http,
        entrance: None,
        provenance: None,
        announcement: EventAnnouncement::Files,
        message: String::new(),
        durability,
        stamp: 0,
        moves: Vec::new(),
        effects: vec![FileEffect::new(
            path,
            None,
            Some(StateAfter::Leaf(OverlayFile::new(content, FileKind::Regular))),
        )],
        spent: Vec::new(),
        is_adopted: false,
        seen: None,
        answer: None,
    }
}

#[test]
fn a_full_queue_keeps_writers_waiting_and_then_sends_them_away_with_a_time_to_come_again() {
    let large = Bytes::from(vec![0; MAX_QUEUED_BYTES / 4]);
    for (durability, content, most) in [
        (Durability::Now, Bytes::new(), MAX_QUEUED_SETS),
        (Durability::Soon, Bytes::new(), MAX_QUEUED_SOON),
        (Durability::Now, large, 4),
    ] {
        let queue = CommitQueue { patience: Duration::from_millis(20), ..CommitQueue::default() };
        for _ in 0..most {
            queue.push(set(durability, content.clone()), |_| {}).unwrap();
        }
        queue.health().unwrap();
        let began = Instant::now();
        let refused = queue.push(set(durability, content.clone()), |_| panic!("accepted")).unwrap_err();
        assert!(began.elapsed() >= queue.patience, "it was not waited for room");
        assert_eq!((refused.kind(), &refused.detail()["retry_after"]), (Kind::Unavailable, &COME_AGAIN.into()));
        assert_eq!(queue.health().unwrap_err().message(), refused.message(), "nobody else is served, either");
        assert_eq!(queue.wait(None), CommitterCommand::Batch);
        assert!(!queue.drain().is_empty());
        queue.health().unwrap();
        queue.push(set(durability, content), |_| {}).unwrap();
    }
}

#[test]
fn whoever_waits_for_room_goes_on_when_there_is_some() {
    let queue = CommitQueue { patience: Duration::from_secs(60), ..CommitQueue::default() };
    for _ in 0..MAX_QUEUED_SOON {
        queue.push(set(Durability::Soon, Bytes::new()), |_| {}).unwrap();
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.push(set(Durability::Soon, Bytes::new()), |_| {}));
        assert_eq!(queue.wait(None), CommitterCommand::Batch, "a full queue is urgent");
        queue.done(queue.drain().len(), true);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_program_waits_for_as_long_as_the_disk_gets_on_and_others_are_told_to_come_again() {
    let most = Duration::from_secs(10);
    let (mut program, mut client) =
        (AdmissionDeadline::new(Protocol::Fuse, most, 7), AdmissionDeadline::new(Protocol::Http, most, 7));
    let (first, theirs) = (program.until(Instant::now(), 7), client.until(Instant::now(), 7));
    let later = first + most * 3;
    assert_eq!((program.until(later, 7), client.until(later, 7)), (first, theirs), "nothing was done");
    assert_eq!((program.until(later, 8), client.until(later, 8)), (later + most, theirs));
    assert_eq!(program.until(later + most, 8), later + most, "and no more since");
}
