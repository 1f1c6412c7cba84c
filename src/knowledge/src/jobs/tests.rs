use serde_json::json;

use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_job_is_seen_by_its_owner_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = JobRegistry::new(directory.path());
    let (done, lost) = (jobs.start("undo", "a", time(1)).unwrap(), jobs.start("clip", "a", time(2)).unwrap());
    assert_eq!(jobs.find(&done.id, "a").unwrap(), Some(done.clone()));
    for (id, owner) in [(done.id.as_str(), "b"), ("0123", "a"), ("../../config", "a"), ("", "a")] {
        assert_eq!(jobs.find(id, owner).unwrap(), None, "{id} of {owner}");
    }
    let state = JobState::Finished { result: json!({ "isError": true }) };
    jobs.finish(done.clone(), state.clone(), time(3));
    let restarted = JobRegistry::new(directory.path());
    for jobs in [&jobs, &restarted] {
        let ended = jobs.find(&done.id, "a").unwrap().unwrap();
        assert_eq!((ended.state, ended.created, ended.updated), (state.clone(), time(1), time(3)));
    }
    assert_eq!(jobs.find(&lost.id, "a").unwrap().unwrap().state, JobState::Running);
    let JobState::Failed { reason } = restarted.find(&lost.id, "a").unwrap().unwrap().state else { panic!() };
    assert!(reason.contains("server ended"), "{reason}");
}

#[test]
fn only_so_many_jobs_run_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = JobRegistry::new(directory.path());
    let running: Vec<Job> = (0..MAX_RUNNING).map(|_| jobs.start("eval", "a", time(1)).unwrap()).collect();
    assert!(jobs.start("eval", "a", time(1)).is_err());
    jobs.finish(running[0].clone(), JobState::Failed { reason: String::new() }, time(2));
    assert!(jobs.start("eval", "a", time(1)).is_ok());
}
