use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn impatient() -> Supervisor {
    Supervisor::with_backoff(Backoff { initial_delay: Duration::from_millis(1), max_delay: Duration::from_millis(4) })
}

struct Scripted<F>(F);
impl<F: FnMut(&StopToken) -> Result<NextStep, TaskFailure> + Send + 'static> Task for Scripted<F> {
    const NAME: &'static str = "scripted";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        (self.0)(stop)
    }
}

#[test]
fn a_task_steps_at_start_and_per_signal_and_ends_when_stopped() {
    let (sender, steps) = mpsc::channel();
    let signal = Signal::new();
    let supervisor = Supervisor::new();
    let task = Scripted(move |_: &StopToken| {
        sender.send(())?;
        Ok(NextStep::WhenSignalled)
    });
    supervisor.start(task, signal.clone()).unwrap();
    steps.recv_timeout(LONG).unwrap();
    signal.raise();
    steps.recv_timeout(LONG).unwrap();
    assert_eq!(supervisor.stop(LONG), Vec::<&str>::new());
    assert!(supervisor.status().is_empty());
}

#[test]
fn a_task_runs_at_lower_cpu_priority_than_its_callers() {
    let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
    let (sender, told) = mpsc::channel();
    let supervisor = Supervisor::new();
    let task = Scripted(move |_: &StopToken| {
        sender.send(nice())?;
        Ok(NextStep::WhenSignalled)
    });
    supervisor.start(task, Signal::new()).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), nice().max(10));
    assert_eq!(supervisor.stop(LONG), Vec::<&str>::new());
}

#[test]
fn a_task_that_asks_for_more_is_stepped_without_a_signal() {
    let (sender, steps) = mpsc::channel();
    let supervisor = Supervisor::new();
    let mut left = 3;
    let task = Scripted(move |_: &StopToken| {
        sender.send(left)?;
        left -= 1;
        Ok(if left == 0 { NextStep::WhenSignalled } else { NextStep::Now })
    });
    supervisor.start(task, Signal::new()).unwrap();
    let seen: Vec<i32> = (0..3).map(|_| steps.recv_timeout(LONG).unwrap()).collect();
    assert_eq!(seen, [3, 2, 1]);
    supervisor.stop(LONG);
}

#[test]
fn a_step_that_panics_or_fails_is_counted_and_repeated() {
    let (sender, done) = mpsc::channel();
    let supervisor = impatient();
    let mut turn = 0;
    let task = Scripted(move |_: &StopToken| {
        turn += 1;
        match turn {
            1 => panic!("a bug in turn {turn}"),
            2 => Err("no disk".into()),
            3 => {
                sender.send(())?;
                Err("still no disk".into())
            }
            _ => Ok(NextStep::WhenSignalled),
        }
    });
    supervisor.start(task, Signal::new()).unwrap();
    done.recv_timeout(LONG).unwrap();
    let status = loop {
        let status = supervisor.status().remove(0);
        if status.last_error.is_none() && status.errors == 2 {
            break status;
        }
        std::thread::yield_now();
    };
    assert_eq!((status.panics, status.errors), (1, 2));
    supervisor.stop(LONG);
}

#[test]
fn pauses_double_up_to_the_longest() {
    let pauses = [1, 2, 3, 6, 7, 40, u32::MAX].map(|failures| Backoff::default().delay(failures).as_secs());
    assert_eq!(pauses, [1, 2, 4, 32, 60, 60, 60]);
}

#[test]
fn who_lingers_past_the_deadline_is_named() {
    let (release, blocked) = mpsc::channel::<()>();
    let (started, running) = mpsc::channel();
    let supervisor = Supervisor::new();
    let task = Scripted(move |_: &StopToken| {
        started.send(())?;
        blocked.recv()?;
        Ok(NextStep::WhenSignalled)
    });
    supervisor.start(task, Signal::new()).unwrap();
    running.recv_timeout(LONG).unwrap();
    assert_eq!(supervisor.stop(Duration::ZERO), ["scripted"]);
    drop(release);
}

#[test]
fn a_long_step_sees_the_stop() {
    let (started, running) = mpsc::channel();
    let supervisor = Supervisor::new();
    let task = Scripted(move |stop: &StopToken| {
        started.send(())?;
        assert!(stop.wait(LONG));
        Ok(NextStep::Now)
    });
    supervisor.start(task, Signal::new()).unwrap();
    running.recv_timeout(LONG).unwrap();
    assert_eq!(supervisor.stop(LONG), Vec::<&str>::new());
}

#[test]
fn a_signal_before_the_first_listener_is_not_lost_or_doubled() {
    let signal = Signal::new();
    signal.raise();
    signal.raise();
    assert!(signal.take());
    assert!(!signal.take());
}

#[test]
fn a_watermark_only_rises_and_wakes_those_below_it() {
    let mark = Arc::new(Watermark::new(5));
    assert!(mark.wait(5, Duration::ZERO));
    assert!(!mark.wait(6, Duration::ZERO));
    let waiting = {
        let mark = Arc::clone(&mark);
        std::thread::Builder::new().spawn(move || mark.wait(8, LONG)).unwrap()
    };
    mark.advance(3);
    assert_eq!(mark.level(), 5);
    mark.advance(9);
    assert!(waiting.join().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_lane_turns_callers_away_and_the_other_lane_stays_open() {
    let lanes = Arc::new(Lanes::new(1, 1, Duration::from_millis(1)));
    let (release, blocked) = mpsc::channel::<()>();
    let (started, running) = tokio::sync::oneshot::channel();
    let holder = {
        let lanes = Arc::clone(&lanes);
        tokio::spawn(async move {
            let work = move || {
                started.send(()).unwrap();
                blocked.recv().unwrap_err()
            };
            lanes.run(Lane::Slow, work).await
        })
    };
    running.await.unwrap();
    let refused = lanes.run(Lane::Slow, || ()).await.unwrap_err();
    assert!(matches!(refused, LaneError::Busy { lane: Lane::Slow, .. }), "{refused}");
    assert_eq!(lanes.run(Lane::Quick, || 7).await, Ok(7));
    drop(release);
    holder.await.unwrap().unwrap();
    assert_eq!(lanes.run(Lane::Slow, || 8).await, Ok(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn quick_work_runs_on_the_calling_thread_and_blocks_no_others() {
    let lanes = Arc::new(Lanes::new(1, 1, LONG));
    let (release, blocked) = mpsc::channel::<()>();
    let (started, running) = tokio::sync::oneshot::channel();
    let asking = tokio::spawn(async move {
        let asker = std::thread::current().id();
        let work = move || {
            started.send(()).unwrap();
            blocked.recv_timeout(LONG).unwrap();
            std::thread::current().id()
        };
        (asker, lanes.run(Lane::Quick, work).await.unwrap())
    });
    // The only thread of the runtime is in there.
    tokio::spawn(async move {
        running.await.unwrap();
        release.send(()).unwrap();
    });
    let (asker, worker) = asking.await.unwrap();
    assert_eq!(asker, worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_work_can_be_cancelled_and_holds_its_slot_to_the_end() {
    let lanes = Lanes::new(1, 1, LONG);
    let (release, blocked) = mpsc::channel::<()>();
    let (started, running) = tokio::sync::oneshot::channel();
    let work = move || {
        started.send(()).unwrap();
        blocked.recv_timeout(LONG).unwrap();
    };
    tokio::select! {
        _ = lanes.run_spawned(Lane::Quick, work) => panic!("it is not over"),
        begun = running => begun.unwrap(),
    }
    assert_eq!(lanes.occupancy(Lane::Quick).busy, 1);
    release.send(()).unwrap();
    assert_eq!(lanes.run(Lane::Quick, || 7).await, Ok(7));
}

async fn panics_are_told() {
    let lanes = Lanes::new(1, 1, Duration::from_millis(1));
    for _ in 0..2 {
        let outcome = lanes.run(Lane::Quick, || -> u8 { panic!("a bug") }).await;
        assert_eq!(outcome, Err(LaneError::Panicked("a bug".into())));
    }
}

#[tokio::test]
async fn a_panic_in_a_lane_is_reported_and_frees_its_slot() {
    panics_are_told().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_calling_thread_is_reported_and_frees_its_slot() {
    panics_are_told().await;
}

#[test]
fn lazy_helper_work_runs_with_the_next_task_or_before_idle() {
    let helper = SerialExecutor::new();
    let (sender, done) = mpsc::channel();
    let tell = |number: u8| {
        let sender = sender.clone();
        move || sender.send(number).unwrap()
    };
    helper.enqueue_lazily(tell(1));
    helper.submit(tell(2));
    assert_eq!([1, 2].map(|_| done.recv_timeout(LONG).unwrap()), [1, 2]);
    helper.wait_idle();
    helper.enqueue_lazily(tell(3));
    helper.kick();
    assert_eq!(done.recv_timeout(LONG), Ok(3));
    helper.wait_idle();
    helper.enqueue_lazily(tell(4));
    helper.wait_idle();
    assert_eq!(done.try_recv(), Ok(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn started_work_is_completed_without_waiters() {
    let lanes = Arc::new(Lanes::default());
    let finished = Arc::new(AtomicUsize::new(0));
    let (release, blocked) = mpsc::channel::<()>();
    let (started, running) = tokio::sync::oneshot::channel();
    let (sender, end) = tokio::sync::oneshot::channel();
    let task = {
        let (lanes, finished) = (Arc::clone(&lanes), Arc::clone(&finished));
        tokio::spawn(async move {
            let work = move || {
                started.send(()).unwrap();
                blocked.recv().unwrap();
                finished.fetch_add(1, Ordering::SeqCst);
                sender.send(()).unwrap();
            };
            lanes.run(Lane::Quick, work).await
        })
    };
    running.await.unwrap();
    task.abort();
    release.send(()).unwrap();
    end.await.unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_lane_tells_how_full_it_is() {
    let lanes = Arc::new(Lanes::new(1, 1, LONG));
    let (release, held) = mpsc::channel::<()>();
    let (begun, beginning) = mpsc::channel();
    let work = move || {
        begun.send(()).unwrap();
        held.recv().unwrap();
    };
    let busy = tokio::spawn({
        let lanes = Arc::clone(&lanes);
        async move { lanes.run(Lane::Quick, work).await }
    });
    tokio::task::spawn_blocking(move || beginning.recv_timeout(LONG)).await.unwrap().unwrap();
    let second = tokio::spawn({
        let lanes = Arc::clone(&lanes);
        async move { lanes.run(Lane::Quick, || ()).await }
    });
    while lanes.occupancy(Lane::Quick).waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(lanes.occupancy(Lane::Quick), LaneOccupancy { capacity: 1, busy: 1, waiting: 1 });
    assert_eq!(lanes.occupancy(Lane::Slow), LaneOccupancy { capacity: 1, busy: 0, waiting: 0 });
    release.send(()).unwrap();
    busy.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(lanes.occupancy(Lane::Quick), LaneOccupancy { capacity: 1, busy: 0, waiting: 0 });
}

#[test]
fn two_hundred_tasks_share_a_few_threads_and_run_on_time() {
    let (sender, steps) = mpsc::channel();
    let supervisor = Supervisor::new();
    for number in 0..200 {
        let sender = sender.clone();
        let task = Scripted(move |_: &StopToken| {
            sender.send((number, std::thread::current().id()))?;
            Ok(NextStep::After(Duration::from_millis(5)))
        });
        supervisor.start(task, Signal::new()).unwrap();
    }
    let (mut turns, mut threads) = ([0; 200], std::collections::HashSet::new());
    while turns.iter().any(|turns| *turns < 3) {
        let (number, thread) = steps.recv_timeout(LONG).unwrap();
        turns[number] += 1;
        threads.insert(thread);
    }
    assert!(threads.len() <= 8, "{threads:?}");
    assert_eq!(supervisor.stop(LONG), Vec::<&str>::new());
}

#[test]
fn a_task_that_waits_for_its_time_is_woken_by_its_signal_before() {
    let (sender, steps) = mpsc::channel();
    let (supervisor, signal) = (Supervisor::new(), Signal::new());
    let task = Scripted(move |_: &StopToken| {
        sender.send(())?;
        Ok(NextStep::After(Duration::from_secs(3600)))
    });
    supervisor.start(task, signal.clone()).unwrap();
    for _ in 0..3 {
        steps.recv_timeout(LONG).unwrap();
        signal.raise();
    }
    steps.recv_timeout(LONG).unwrap();
    assert_eq!(supervisor.stop(LONG), Vec::<&str>::new());
}

#[test]
fn a_task_that_stops_its_own_supervisor_ends_after_its_step() {
    let (sender, ended) = mpsc::channel();
    let supervisor = Arc::new(Supervisor::new());
    let own = Arc::clone(&supervisor);
    let task = Scripted(move |_: &StopToken| {
        sender.send(own.stop(LONG))?;
        Ok(NextStep::Now)
    });
    supervisor.start(task, Signal::new()).unwrap();
    assert_eq!(ended.recv_timeout(LONG).unwrap(), Vec::<&str>::new());
    // The task was dropped, and what it held with it.
    assert!(ended.recv_timeout(LONG).is_err());
}

#[test]
fn a_task_that_pauses_after_a_failure_ends_when_stopped() {
    let (sender, steps) = mpsc::channel();
    let supervisor = Supervisor::with_backoff(Backoff { initial_delay: LONG * 10, max_delay: LONG * 10 });
    let task = Scripted(move |_: &StopToken| {
        sender.send(())?;
        Err("no disk".into())
    });
    supervisor.start(task, Signal::new()).unwrap();
    steps.recv_timeout(LONG).unwrap();
    assert_eq!(supervisor.stop(LONG), Vec::<&str>::new());
}

#[test]
fn a_helper_does_everything_in_order_and_is_waited_for() {
    let (done, helper) = (Arc::new(parking_lot::Mutex::new(Vec::new())), SerialExecutor::new());
    for number in 0..1000 {
        let done = Arc::clone(&done);
        helper.submit(move || done.lock().push(number));
    }
    helper.wait_idle();
    assert_eq!(*done.lock(), (0..1000).collect::<Vec<_>>());
    helper.submit(|| panic!("a bug in what was given away"));
    let last = Arc::clone(&done);
    helper.submit(move || last.lock().push(1000));
    drop(helper);
    assert_eq!(done.lock().last(), Some(&1000));
}

#[test]
fn helpers_that_are_all_busy_do_not_starve_each_other() {
    let helpers: Vec<SerialExecutor> = (0..100).map(|_| SerialExecutor::new()).collect();
    let count = Arc::new(AtomicUsize::new(0));
    for helper in &helpers {
        let count = Arc::clone(&count);
        helper.submit(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }
    drop(helpers);
    assert_eq!(count.load(Ordering::Relaxed), 100);
}
