//! A whole door over real spaces on temporary directories, asked in this process.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use svcfs_base::FrozenClock;
use svcfs_config::{CliOverrides, Config, Settings};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::kernel::{OperationArea, ServerState, Space};
use svcfs_knowledge::spaces::{RunningSpace, SpaceCollection, SpaceOptions, open, start_indexer};
use svcfs_work::Supervisor;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use warp::reply::Response;

use crate::app::AppState;
use crate::bind::UnreadBody;
use crate::request_handler::HttpRequest;

/// A door to two spaces, `default` and `other`, with their indexers running.
pub(super) struct TestServer {
    pub app: Arc<AppState>,
    pub stop: CancellationToken,
    supervisor: Supervisor,
    _roots: [TempDir; 2],
}

/// What came back.
pub(super) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl TestServer {
    pub(super) fn new() -> Self {
        Self::of(CATALOGUE, "")
    }

    /// A door that offers `catalogue`, with this `config.toml`.
    pub(super) fn of(catalogue: &'static [OperationArea], config: &str) -> Self {
        let settings = Settings::resolve(Config::parse(config, &|_| None), CliOverrides::default()).unwrap();
        let clock = Arc::new(FrozenClock::starting_at(1_767_225_600));
        let supervisor = Supervisor::new();
        let roots = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [primary, other] = [("default", &roots[0]), ("other", &roots[1])].map(|(name, root)| {
            let (name, root) = (name.to_owned(), root.path().to_owned());
            let opening = SpaceOptions { name, root, clock: clock.clone(), is_watched: false, on_progress: None };
            let space = open(opening, &settings).unwrap();
            start_indexer(&space, &supervisor).unwrap();
            space
        });
        let spaces = SpaceCollection::single(primary);
        spaces.add(RunningSpace { space: other, supervisor: Supervisor::new(), resource_guard: None });
        let server = ServerState::new(spaces, clock, AccessControl::new(settings.auth.clone(), None));
        let stop = CancellationToken::new();
        let app = AppState::new(catalogue, Arc::new(server), stop.clone()).unwrap();
        Self { app, stop, supervisor, _roots: roots }
    }

    /// Starts the task that embeds pages.
    pub(super) fn start_vectors(&self) {
        svcfs_knowledge::spaces::start_vector_indexer(self.space(), &self.supervisor).unwrap();
    }

    pub(super) fn space(&self) -> &Arc<Space> {
        self.app.server.primary()
    }

    /// Sends a request from this machine and gives the answer as it is, body unread.
    pub(super) async fn send(&self, line: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
        self.send_from([127, 0, 0, 1].into(), (line, headers), body).await
    }

    /// The same, from another.
    pub(super) async fn send_from(
        &self,
        peer: IpAddr,
        (line, headers): (&str, &[(&str, &str)]),
        body: impl Into<Bytes>,
    ) -> Response {
        let (method, uri) = line.split_once(' ').unwrap();
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let body = UnreadBody::new(Box::pin(stream::iter([Ok(body.into())])), &map);
        let request = HttpRequest {
            method: method.parse::<Method>().unwrap(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: map,
            body,
            peer: Some(peer),
            connection: None,
        };
        self.app.handle(request).await
    }

    /// Sends a request and reads the answer.
    pub(super) async fn ask(&self, line: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let (head, body) = self.send(line, headers, body).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Reads a page or list.
    pub(super) async fn get(&self, uri: &str) -> Answer {
        self.ask(&format!("GET {uri}"), &[], "").await
    }

    /// Writes a page that must be accepted, and gives its etag.
    pub(super) async fn put(&self, path: &str, content: &str) -> String {
        let answer = self.ask(&format!("PUT /api/svc/file?path={path}"), &[], content.to_owned()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["etag"].as_str().unwrap().to_owned()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.cancel();
        let lingering = self.supervisor.stop(std::time::Duration::from_secs(20));
        if !std::thread::panicking() {
            assert_eq!(lingering, Vec::<&str>::new());
        }
    }
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    /// The message of a refusal of this status.
    #[track_caller]
    pub(super) fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{:?}", self.body);
        assert_eq!(self.header("content-type"), "application/json");
        self.json()["error"].as_str().unwrap().to_owned()
    }
    /// True when the body is empty and the status says so.
    pub(super) fn is_empty(&self, status: StatusCode) -> bool {
        self.status == status.as_u16() && self.body.is_empty()
    }
}
