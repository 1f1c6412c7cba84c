//! Turns a panic in a request handler into a fault.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use svcfs_base::Fault;
use svcfs_work::LaneError;

/// Runs a request handler. A panic in it becomes an `Internal` fault, which is answered, logged and
/// counted; without this, the connection would just close.
///
/// # Errors
/// Those of the work; `Internal` when it panicked.
pub async fn catch_panic<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let mut work = pin!(work);
    // After a panic the future is not polled again; what it holds is dropped.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(Fault::internal(LaneError::from_panic(&*panic)))),
    })
    .await
}

#[cfg(test)]
mod tests {
    use svcfs_base::Kind;
    use tokio::task::yield_now;

    use super::catch_panic;

    #[tokio::test]
    async fn a_panic_during_a_request_becomes_an_internal_fault() {
        let panics = async {
            yield_now().await;
            assert_ne!(1 + 1, 2, "a bug");
            Ok(())
        };
        let fault = catch_panic(panics).await.unwrap_err();
        assert_eq!(fault.kind(), Kind::Internal);
        assert!(format!("{fault:?}").contains("a bug"), "{fault:?}");
        let goes_well = async {
            yield_now().await;
            Ok(1)
        };
        assert_eq!(catch_panic(goes_well).await.unwrap(), 1);
    }
}
