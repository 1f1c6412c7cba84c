use svcfs_config::CliOverrides;

use super::*;
use crate::root::{OpenRoot, settings};

#[test]
fn a_mount_request_to_a_stopping_server_gets_no_server() {
    let root = tempfile::tempdir().unwrap();
    let served = OpenRoot::open(root.path(), settings(root.path(), None, CliOverrides::default()).unwrap(), false);
    let served = served.unwrap();
    let mounts = RootMounts::new(served.server(), MountNamespace::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let control = listen(&mounts, ControlRole::Mount, root.path(), &runtime).unwrap();
    assert!(mounts.stop_if_unmounted(), "nothing is mounted");
    let mountpoint = root.path().join("mountpoint");
    assert_eq!(request_mount(root.path(), &mountpoint, &MountFlags::default()).unwrap(), None);
    drop(control);
    served.close().unwrap();
}

/// Sends a request to a server that accepts it, does `then` with its socket and disconnects.
fn request_while(
    root: &Path,
    then: impl FnOnce(UnixListener) + Send + 'static,
) -> Result<Option<PathBuf>, CommandFailure> {
    let state = StatePaths::new(root).directory().to_owned();
    fs::create_dir_all(&state).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.enter();
    let listener = bind(&state.join(SOCKET)).unwrap();
    drop(guard);
    runtime.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        then(listener);
        drop(stream);
    });
    request_mount(root, &root.join("mountpoint"), &MountFlags::default())
}

#[test]
fn a_server_that_stops_during_a_request_counts_as_no_server() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(request_while(root.path(), drop).unwrap(), None);
}

#[test]
fn a_running_server_that_disconnects_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let (sender, listener) = std::sync::mpsc::channel();
    let failure = request_while(root.path(), move |listener| sender.send(listener).unwrap()).unwrap_err();
    assert!(failure.message(false).contains("closed the connection"), "{}", failure.message(false));
    drop(listener);
}
