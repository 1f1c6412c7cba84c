use svcfs_base::Kind;

use super::*;

fn set(durability: Durability, content: Bytes) -> QueuedSet {
    let path = TreePath::parse("page.md").unwrap();
    QueuedSet {
        actor: Actor::new("eve"),
        protocol: Protocol::Http,
        origin_id: None,
        provenance: None,
        request: None,
        announcement: EventAnnouncement::Files,
        message: String::new(),
        durability,
        ticket: 0,
        moves: Vec::new(),
        effects: vec![FileEffect::new(
            path,
            None,
            Some(StateAfter::Leaf(OverlayFile::new(content, FileKind::Regular))),
        )],
        consumed_scratch: Vec::new(),
        is_adopted: false,
        scanned_at: None,
        answer: None,
    }
}

/// Shows: DUR-8
#[test]
fn a_full_queue_blocks_writers_then_returns_retry_after() {
    let large = Bytes::from(vec![0; MAX_QUEUED_BYTES / 4]);
    for (durability, content, most) in [
        (Durability::Now, Bytes::new(), MAX_QUEUED_SETS),
        (Durability::Soon, Bytes::new(), MAX_QUEUED_SOON),
        (Durability::Now, large, 4),
    ] {
        let queue = CommitQueue { admission_timeout: Duration::from_millis(20), ..CommitQueue::default() };
        for _ in 0..most {
            queue.push(set(durability, content.clone()), |_| {}).unwrap();
        }
        queue.health().unwrap();
        let began = Instant::now();
        let refused = queue.push(set(durability, content.clone()), |_| panic!("accepted")).unwrap_err();
        assert!(began.elapsed() >= queue.admission_timeout, "it was not waited for room");
        assert_eq!((refused.kind(), &refused.detail()["retry_after"]), (Kind::Unavailable, &RETRY_AFTER_SECS.into()));
        assert_eq!(queue.health().unwrap_err().message(), refused.message(), "nobody else is served, either");
        assert_eq!(queue.next_command(None), CommitterCommand::Batch);
        assert!(!queue.drain().is_empty());
        queue.health().unwrap();
        queue.push(set(durability, content), |_| {}).unwrap();
    }
}

/// Shows: DUR-8
#[test]
fn a_writer_blocked_on_a_full_queue_continues_when_space_frees() {
    let queue = CommitQueue { admission_timeout: Duration::from_secs(60), ..CommitQueue::default() };
    for _ in 0..MAX_QUEUED_SOON {
        queue.push(set(Durability::Soon, Bytes::new()), |_| {}).unwrap();
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.push(set(Durability::Soon, Bytes::new()), |_| {}));
        assert_eq!(queue.next_command(None), CommitterCommand::Batch, "a full queue is urgent");
        queue.done(queue.drain().len(), true);
        waiting.join().unwrap().unwrap();
    });
}

/// Shows: MNT-10
#[test]
fn a_mount_waits_while_the_disk_makes_progress_and_others_retry() {
    let most = Duration::from_secs(10);
    let (mut program, mut client) =
        (AdmissionDeadline::new(Protocol::Fuse, most, 7), AdmissionDeadline::new(Protocol::Http, most, 7));
    let (first, theirs) = (program.extend_on_progress(Instant::now(), 7), client.extend_on_progress(Instant::now(), 7));
    let later = first + most * 3;
    assert_eq!(
        (program.extend_on_progress(later, 7), client.extend_on_progress(later, 7)),
        (first, theirs),
        "nothing was done"
    );
    assert_eq!((program.extend_on_progress(later, 8), client.extend_on_progress(later, 8)), (later + most, theirs));
    assert_eq!(program.extend_on_progress(later + most, 8), later + most, "and no more since");
}
